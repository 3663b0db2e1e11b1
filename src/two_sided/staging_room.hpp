// How much of this rank's offers lies in host memory for receivers that have not come.
#pragma once

#include <atomic>
#include <cstdint>

namespace partita {

/// A sender that is far ahead of its receivers must not fill the memory: where there is no room left it waits for them,
/// as the MPI lets it (MPI-4, section 3.5). Any thread.
class StagingRoom {
 public:
  static constexpr std::int64_t most_bytes = std::int64_t{256} << 20;

  /// Takes so much, if there is so much left.
  bool take(std::int64_t size_bytes) {
    std::int64_t taken_bytes = taken_bytes_.load(std::memory_order_relaxed);
    do {
      if (size_bytes > most_bytes - taken_bytes) return false;
    } while (!taken_bytes_.compare_exchange_weak(taken_bytes, taken_bytes + size_bytes, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::int64_t size_bytes) { taken_bytes_.fetch_sub(size_bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> taken_bytes_{0};
};

}  // namespace partita
