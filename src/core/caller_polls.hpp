// Whether callers take the engine's steps, so that its thread need not.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace partita {

/// Callers that wait take steps one after the other; the thread asks behind each of its naps whether some did all
/// through it.
class CallerPolls {
 public:
  /// A caller takes the steps. One thread at a time.
  void add() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // The engine's thread:

  /// What came before the nap that begins now does not count.
  void begin_nap() { before_nap_ = count_.load(std::memory_order_relaxed); }
  /// Whether there were so many in it, a nap of `time`, that a step for which the thread does not come is hardly late.
  bool fill(std::chrono::microseconds time) const {
    return (count_.load(std::memory_order_relaxed) - before_nap_) * longest_gap >= time;
  }

 private:
  static constexpr std::chrono::microseconds longest_gap{10};

  std::atomic<std::uint32_t> count_{0};
  std::uint32_t before_nap_ = 0;
};

}  // namespace partita
