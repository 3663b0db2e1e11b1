#include "partitioned/gpu/hand_overs.hpp"

namespace partita {

void HandOvers::set_up(std::int32_t transport_partitions) {
  size_ = transport_partitions;
  taken_ = std::vector<std::atomic<std::uint64_t>>((static_cast<std::size_t>(transport_partitions) + word_bits - 1) /
                                                   word_bits);
}

std::uint32_t HandOvers::take_now(std::int32_t word, std::uint32_t wish, Epoch epoch) {
  std::atomic<std::uint64_t>& taken = taken_[static_cast<std::size_t>(word)];
  std::uint64_t before = taken.load(std::memory_order_relaxed);
  while (!taken.compare_exchange_weak(before, std::uint64_t{epoch} << 32 | bits_of(before, epoch) | wish,
                                      std::memory_order_relaxed)) {
  }
  return wish & ~bits_of(before, epoch);
}

void HandOvers::forget() {
  for (auto& taken : taken_) taken.store(0, std::memory_order_relaxed);
  known_.store(0, std::memory_order_relaxed);
}

}  // namespace partita
