#include "link/ucx/receiver.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>

#include "link/ucx/library.hpp"
#include "link/ucx/messages.hpp"

namespace partita::link::ucx {
namespace {

/// Tells the sender which epoch is open.
struct Announcement {
  Transfer transfer;
  Tally tally;
  Epoch epoch = no_epoch;
  wire::Bytes data_key;  ///< the new one, where it goes along

  bool idle() const { return tally.outstanding.load(std::memory_order_acquire) == 0; }
};

/// The largest transfer that comes as a message. None does into GPU memory: a message's handler copies by processor.
std::int64_t eager_limit_into(const Endpoint& endpoint) {
  return memory::is_host(endpoint.kind) ? eager_limit_bytes : -1;
}

std::string way_into(std::int64_t eager_limit) {
  const std::string ucx = "UCX " + to_string(loaded_version());
  if (eager_limit < 0) {
    return ucx + ": each transfer as a put into GPU memory and, when that lies at the target, a put of its flag";
  }
  return fmt::format(
      "{}: transfers up to {} bytes as one message with their flag, larger ones as a put and, when that lies at the "
      "target, a put of the flag",
      ucx, eager_limit);
}

}  // namespace

/// What transfers and messages under way refer to.
struct UcxReceiver::State final : Retired, Sink {
  State(Process& process, const Endpoint& endpoint, const Plan& plan, const Offer& offer);
  ~State() override { process.worker.remove_sink(number); }

  bool idle() const override;
  void deliver(const EagerHeader& header, std::span<const std::byte> bytes) override;
  void announce(Epoch epoch);
  void renew_region();

  std::span<std::byte> memory() const { return {data, static_cast<std::size_t>(plan.total_bytes())}; }

  Process& process;
  std::byte* const data;
  const memory::Kind kind;
  const std::int64_t eager_limit;
  const Plan plan;
  std::unique_ptr<Words> flags;    ///< by transport partition
  std::shared_ptr<Region> region;  ///< null where nothing is put
  bool key_is_due = false;         ///< the sender has that of an earlier region
  Peer* peer = nullptr;
  std::unique_ptr<Key> readiness_key;
  std::uint64_t readiness = 0;
  std::uint64_t sender_sink = 0;
  std::uint64_t number = 0;                ///< what eager messages for this receiver carry
  std::deque<Announcement> announcements;  ///< one, unless the transport is slow to report one's end
  std::atomic<bool> garbled{false};        ///< a message came that does not fit the plan
};

UcxReceiver::State::State(Process& shared, const Endpoint& endpoint, const Plan& matched, const Offer& offer)
    : process(shared),
      data(endpoint.data),
      kind(endpoint.kind),
      eager_limit(eager_limit_into(endpoint)),
      plan(matched),
      flags(shared.words.words(static_cast<std::size_t>(matched.transport_partitions()))),
      peer(&shared.worker.connect(endpoint.peer, offer.worker_address)),
      readiness_key(std::make_unique<Key>(shared.worker, *peer, offer.readiness_key)),
      readiness(offer.readiness),
      sender_sink(offer.sink) {
  // A run may be all of it.
  if (plan.total_bytes() > std::max<std::int64_t>(eager_limit, 0)) region = process.regions.region(memory(), kind);
  number = process.worker.add_sink(*this);
}

bool UcxReceiver::State::idle() const {
  for (const Announcement& announcement : announcements) {
    if (!announcement.idle()) return false;
  }
  return true;
}

void UcxReceiver::State::deliver(const EagerHeader& header, std::span<const std::byte> bytes) {
  const Range run{header.begin, header.end};
  const bool fits = run.begin >= 0 && run.begin < run.end && run.end <= plan.transport_partitions() &&
                    static_cast<std::int64_t>(bytes.size()) == bytes_of(plan, run).size();
  if (!fits) return garbled.store(true, std::memory_order_relaxed);
  if (!bytes.empty()) std::memcpy(data + bytes_of(plan, run).begin, bytes.data(), bytes.size());
  for (std::int64_t t = run.begin; t < run.end; ++t) flags->store(static_cast<std::size_t>(t), header.epoch);
}

/// The program may have freed the buffer since the last epoch, and have other memory under its address.
void UcxReceiver::State::renew_region() {
  if (region == nullptr || !region->stale()) return;
  region = process.regions.renewed(*region, memory(), kind);
  key_is_due = true;
}

/// By a put; or, where the sender must have another key before, by a message with that.
void UcxReceiver::State::announce(Epoch epoch) {
  renew_region();
  Announcement* free = nullptr;
  for (Announcement& announcement : announcements) {
    if (announcement.idle()) free = &announcement;
  }
  if (free == nullptr) free = &announcements.emplace_back();
  Transfer& transfer = free->transfer;
  transfer.peer = peer;
  transfer.tally = &free->tally;
  free->epoch = epoch;
  transfer.flag_values = {&free->epoch, 1};
  transfer.flags = {readiness, readiness_key->handle()};
  transfer.eager = key_is_due;
  transfer.size_bytes = 0;
  if (key_is_due) {
    free->data_key = region->packed_key();
    transfer.source = free->data_key.data();
    transfer.size_bytes = free->data_key.size();
    transfer.header = {sender_sink, new_data_key, new_data_key, epoch};
    key_is_due = false;
  }
  free->tally.outstanding.fetch_add(1, std::memory_order_relaxed);
  process.worker.submit(transfer);
}

UcxReceiver::UcxReceiver(std::shared_ptr<Process> process, const Endpoint& endpoint, const Plan& plan,
                         std::span<const std::byte> offer)
    : process_(std::move(process)), state_(std::make_unique<State>(*process_, endpoint, plan, Offer::unpack(offer))) {}

UcxReceiver::~UcxReceiver() {
  if (!state_->idle()) process_->worker.retire(std::move(state_));
}

ReceiverAnswer UcxReceiver::answer() {
  Answer answer;
  answer.worker_address = process_->worker.context().address();
  answer.sink = state_->number;
  answer.eager_limit = state_->eager_limit;
  if (state_->region != nullptr) {
    answer.data = reinterpret_cast<std::uint64_t>(state_->data);
    answer.data_key = state_->region->packed_key();
  }
  answer.flags = state_->flags->address();
  answer.flags_key = state_->flags->packed_key();
  return {
      answer.pack(), {.needs_progress = true, .landings = {state_->data, state_->data}}, way_into(state_->eager_limit)};
}

void UcxReceiver::open(Epoch epoch) {
  state_->announce(epoch);
}

bool UcxReceiver::arrived(std::int32_t t, Epoch epoch) {
  // A flag never runs ahead of the open epoch, so it either shows it or an earlier one.
  const auto index = static_cast<std::size_t>(t);
  if (state_->flags->load(index) == epoch) return true;
  process_->worker.progress();
  if (state_->flags->load(index) == epoch) return true;
  if (state_->peer->failed()) state_->peer->throw_failure();
  if (state_->garbled.load(std::memory_order_relaxed)) {
    throw Error(ErrorClass::internal,
                "link ucx received a message from rank {} that does not fit the request's partitions",
                state_->peer->rank());
  }
  return false;
}

/// Messages that are still to come, of an epoch that was given up, are dropped. Puts, which nobody can call back, end
/// at the latest with the region.
void UcxReceiver::release_memory() {
  process_->worker.remove_sink(state_->number);
  state_->region.reset();
}

}  // namespace partita::link::ucx
