#include "link/ucx/sender.hpp"

#include <vector>

#include "link/ucx/messages.hpp"

namespace partita::link::ucx {

/// What transfers under way refer to.
struct UcxSender::State final : Retired {
  State(std::unique_ptr<Words> words, std::shared_ptr<Region> region)
      : readiness(std::move(words)), gpu_region(std::move(region)) {}
  bool idle() const override { return tally.outstanding.load(std::memory_order_acquire) == 0; }

  std::unique_ptr<Words> readiness;    ///< one word, written by the receiver
  std::shared_ptr<Region> gpu_region;  ///< the source; null where that is host memory, or empty
  Peer* peer = nullptr;                ///< null before connect
  std::unique_ptr<Key> data_key;
  std::unique_ptr<Key> flags_key;
  Tally tally;
  std::vector<Transfer> transfers;  ///< by transport partition
};

UcxSender::UcxSender(std::shared_ptr<Process> process, const Endpoint& endpoint, std::shared_ptr<Region> gpu_region)
    : process_(std::move(process)),
      endpoint_(endpoint),
      state_(std::make_unique<State>(process_->words.words(1), std::move(gpu_region))) {}

UcxSender::~UcxSender() {
  if (!state_->idle()) process_->worker.retire(std::move(state_));
}

wire::Bytes UcxSender::offer() {
  Offer offer;
  offer.version = loaded_version();
  offer.worker_address = process_->worker.context().address();
  offer.readiness = state_->readiness->address();
  offer.readiness_key = state_->readiness->packed_key();
  return offer.pack();
}

void UcxSender::connect(const Plan& plan, std::byte* data, std::span<const std::byte> answer_bytes) {
  const Answer answer = Answer::unpack(answer_bytes);
  Worker& worker = process_->worker;
  Peer& peer = worker.connect(endpoint_.peer, answer.worker_address);
  state_->flags_key = std::make_unique<Key>(worker, peer, answer.flags_key);
  if (!answer.data_key.empty()) state_->data_key = std::make_unique<Key>(worker, peer, answer.data_key);

  state_->transfers.resize(static_cast<std::size_t>(plan.transport_partitions()));
  for (std::int32_t t = 0; t < plan.transport_partitions(); ++t) {
    const Range bytes = plan.bytes(t);
    Transfer& transfer = state_->transfers[static_cast<std::size_t>(t)];
    transfer.peer = &peer;
    transfer.tally = &state_->tally;
    transfer.source = data + bytes.begin;
    transfer.source_handle = state_->gpu_region != nullptr ? state_->gpu_region->handle() : nullptr;
    transfer.size_bytes = static_cast<std::size_t>(bytes.size());
    transfer.eager = bytes.size() <= answer.eager_limit;
    transfer.header = {answer.sink, t, no_epoch};
    transfer.data = {answer.data + static_cast<std::uint64_t>(bytes.begin),
                     state_->data_key ? state_->data_key->handle() : nullptr};
    transfer.flag = {answer.flags + static_cast<std::uint64_t>(t) * sizeof(Epoch), state_->flags_key->handle()};
  }
  state_->peer = &peer;
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

void UcxSender::put(std::int32_t t, Epoch epoch) {
  Transfer& transfer = state_->transfers[static_cast<std::size_t>(t)];
  transfer.epoch = epoch;
  transfer.header.epoch = epoch;
  state_->tally.outstanding.fetch_add(1, std::memory_order_relaxed);
  process_->worker.submit(transfer);
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
