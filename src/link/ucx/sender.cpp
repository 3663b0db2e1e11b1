#include "link/ucx/sender.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "link/ucx/messages.hpp"

namespace partita::link::ucx {

/// What transfers under way refer to.
struct UcxSender::State final : Retired, Sink {
  State(Process& shared, std::shared_ptr<Region> region, int gpu)
      : process(shared),
        readiness(shared.words.words(1)),
        source_gpu(region != nullptr ? gpu : -1),
        gpu_region(std::move(region)) {
    number = process.worker.add_sink(*this);
  }
  ~State() override { process.worker.remove_sink(number); }

  bool idle() const override { return tally.outstanding.load(std::memory_order_acquire) == 0; }
  void deliver(const EagerHeader& header, std::span<const std::byte> bytes) override;
  void take_key(Epoch epoch, std::span<const std::byte> packed);
  void map_target() const noexcept;
  Transfer& transfer_of(Range run, Epoch epoch);

  Process& process;
  std::unique_ptr<Words> readiness;    ///< one word, written by the receiver
  const int source_gpu;                ///< -1 where the source is host memory, or empty
  std::shared_ptr<Region> gpu_region;  ///< the source; null where there is no GPU
  Plan plan;
  const std::byte* data = nullptr;
  // What the receiver has answered:
  std::uint64_t sink = 0;
  std::int64_t eager_limit = 0;
  std::uint64_t remote_data = 0;
  std::uint64_t remote_flags = 0;
  Peer* peer = nullptr;  ///< null before connect
  std::unique_ptr<Key> data_key;
  std::unique_ptr<Key> flags_key;
  Tally tally;
  std::vector<Transfer> transfers;  ///< by the first transport partition of the run
  std::vector<Epoch> epochs;        ///< by transport partition: what its flag is to be
  std::uint64_t number = 0;         ///< what a message with a new data_key carries
  // With the gate held:
  bool connected = false;
  Epoch early_epoch = no_epoch;  ///< which a new data_key that came before the answer opens
  wire::Bytes early_key;         ///< empty where there was no memory to keep it
};

/// The receiver has registered other memory under the address. It had got all that was put before, so that nothing is
/// under way with the old key. In a callback of UCX: nothing may be thrown, and to unpack a key sends nothing.
void UcxSender::State::deliver(const EagerHeader& header, std::span<const std::byte> bytes) {
  if (header.begin != new_data_key) return;
  if (connected) return take_key(header.epoch, bytes);
  early_epoch = header.epoch;
  try {
    early_key.assign(bytes.begin(), bytes.end());
  } catch (const std::bad_alloc&) {
    early_key.clear();
  }
}

/// With the gate held.
void UcxSender::State::take_key(Epoch epoch, std::span<const std::byte> packed) {
  if (peer->failed()) return;
  if (data_key != nullptr) {
    const ucs_status_t status = data_key->replace(*peer, packed);
    if (status != UCS_OK) return peer->fail(status, "ucp_ep_rkey_unpack");
    map_target();
  }
  readiness->store(0, epoch);  // whoever sees it puts with the new key
}

/// With the gate held. From GPU to GPU of a node, UCX maps the target for the source's GPU. Where that fails, so does
/// the first put.
void UcxSender::State::map_target() const noexcept {
  if (source_gpu < 0 || data_key == nullptr) return;
  try {
    process.worker.with_gpu(source_gpu, [this] { data_key->map(remote_data); });
  } catch (const std::exception&) {
  }
}

UcxSender::UcxSender(std::shared_ptr<Process> process, const Endpoint& endpoint, std::shared_ptr<Region> gpu_region)
    : process_(std::move(process)),
      endpoint_(endpoint),
      state_(std::make_unique<State>(*process_, std::move(gpu_region), endpoint.device)) {}

UcxSender::~UcxSender() {
  if (!state_->idle()) process_->worker.retire(std::move(state_));
}

wire::Bytes UcxSender::offer() {
  Offer offer;
  offer.version = loaded_version();
  offer.worker_address = process_->worker.context().address();
  offer.readiness = state_->readiness->address();
  offer.readiness_key = state_->readiness->packed_key();
  offer.sink = state_->number;
  return offer.pack();
}

std::variant<SenderFacts, Obstacle> UcxSender::connect(const Plan& plan, std::byte* data,
                                                       std::span<const std::byte> answer_bytes) {
  const Answer answer = Answer::unpack(answer_bytes);
  Worker& worker = process_->worker;
  Peer& peer = worker.connect(endpoint_.peer, answer.worker_address);
  state_->flags_key = std::make_unique<Key>(worker, peer, answer.flags_key);
  if (!answer.data_key.empty()) state_->data_key = std::make_unique<Key>(worker, peer, answer.data_key);
  state_->plan = plan;
  state_->data = data;
  state_->sink = answer.sink;
  state_->eager_limit = answer.eager_limit;
  state_->remote_data = answer.data;
  state_->remote_flags = answer.flags;
  state_->transfers.resize(static_cast<std::size_t>(plan.transport_partitions()));
  state_->epochs.resize(static_cast<std::size_t>(plan.transport_partitions()));
  constexpr SenderFacts facts{.needs_progress = true};
  const Worker::Hold hold(worker);
  state_->peer = &peer;
  state_->connected = true;
  if (state_->early_epoch == no_epoch) {
    state_->map_target();
    return facts;
  }
  if (state_->early_key.empty()) throw Error(ErrorClass::no_mem, "out of memory");
  state_->take_key(state_->early_epoch, state_->early_key);
  return facts;
}

/// Nothing is under way between two epochs.
void UcxSender::start(Epoch) {
  if (state_->gpu_region == nullptr || !state_->gpu_region->stale()) return;
  const std::span<std::byte> memory{endpoint_.data, static_cast<std::size_t>(endpoint_.size_bytes)};
  state_->gpu_region = process_->regions.renewed(*state_->gpu_region, memory, endpoint_.kind);
}

bool UcxSender::promised(Epoch epoch) const {
  const Epoch seen = state_->readiness->load(0);
  return state_->peer != nullptr && seen != no_epoch && reached(seen, epoch);
}

bool UcxSender::ready(Epoch epoch) const {
  if (promised(epoch)) return true;
  process_->worker.progress();
  if (promised(epoch)) return true;
  if (state_->peer != nullptr && state_->peer->failed()) state_->peer->throw_failure();
  return false;
}

/// The run's first transport partition begins no other in this epoch.
Transfer& UcxSender::State::transfer_of(Range run, Epoch epoch) {
  const Range bytes = bytes_of(plan, run);
  const auto first = static_cast<std::size_t>(run.begin);
  const std::span<Epoch> flags = std::span(epochs).subspan(first, static_cast<std::size_t>(run.size()));
  std::fill(flags.begin(), flags.end(), epoch);

  Transfer& transfer = transfers[first];
  transfer.peer = peer;
  transfer.tally = &tally;
  transfer.source = data + bytes.begin;
  transfer.source_handle = gpu_region != nullptr ? gpu_region->handle() : nullptr;
  transfer.size_bytes = static_cast<std::size_t>(bytes.size());
  transfer.data = {remote_data + static_cast<std::uint64_t>(bytes.begin), data_key ? data_key->handle() : nullptr};
  transfer.flag_values = flags;
  transfer.flags = {remote_flags + first * sizeof(Epoch), flags_key->handle()};
  transfer.eager = bytes.size() <= eager_limit;
  transfer.header = {sink, static_cast<std::int32_t>(run.begin), static_cast<std::int32_t>(run.end), epoch};
  return transfer;
}

void UcxSender::put(Range run, Epoch epoch) {
  state_->tally.outstanding.fetch_add(1, std::memory_order_relaxed);
  process_->worker.submit(state_->transfer_of(run, epoch));
}

bool UcxSender::finished() {
  if (!state_->idle()) process_->worker.progress();
  if (state_->tally.lost.load(std::memory_order_relaxed)) state_->peer->throw_failure();
  return state_->idle();
}

/// What an epoch that was given up has left under way still refers to the registration, which then goes with the state;
/// but no other request gets it.
void UcxSender::release_memory() {
  if (state_->gpu_region == nullptr) return;
  process_->regions.forget(*state_->gpu_region);
  if (state_->idle()) state_->gpu_region.reset();
}

}  // namespace partita::link::ucx
