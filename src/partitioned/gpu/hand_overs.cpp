#include "partitioned/gpu/hand_overs.hpp"

namespace partita {

void HandOvers::set_up(std::int32_t transport_partitions) {
  taken_ = std::vector<std::atomic<Epoch>>(static_cast<std::size_t>(transport_partitions));
}

void HandOvers::forget() {
  for (auto& taken : taken_) taken.store(no_epoch, std::memory_order_relaxed);
  known_.store(0, std::memory_order_relaxed);
}

}  // namespace partita
