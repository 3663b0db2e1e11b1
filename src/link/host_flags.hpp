// Arrival flags in host memory, which tell by themselves what has arrived.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/epoch.hpp"
#include "link/plan.hpp"

namespace partita::link {

/// The arrival flags of a request's transport partitions, one behind the other in the receiver's memory. A flag holds
/// the newest epoch in which its transport partition arrived.
class Flags {
 public:
  explicit Flags(std::byte* first) : first_(reinterpret_cast<Epoch*>(first)) {}
  /// What the flags of `plan` take, rounded up so that data may follow.
  static std::size_t size_bytes(const Plan& plan) {
    return (static_cast<std::size_t>(plan.transport_partitions()) * sizeof(Epoch) + 15) / 16 * 16;
  }

  /// Releases the bytes of `run` to whoever finds a flag of it raised. A receiver waits for the first one: once it sees
  /// that, all others are there, and it need not fetch their cache line again.
  void raise(Range run, Epoch epoch) const {
    for (std::int64_t t = run.end; t > run.begin; --t) Word(first_[t - 1]).store(epoch, std::memory_order_release);
  }
  /// Acquires what raise has released.
  bool raised(std::int32_t t, Epoch epoch) const { return Word(first_[t]).load(std::memory_order_acquire) == epoch; }
  std::int64_t first_not_raised(Range run, Epoch epoch) const {
    return first_not(run, [&](std::int64_t t) { return raised(static_cast<std::int32_t>(t), epoch); });
  }

 private:
  using Word = std::atomic_ref<Epoch>;

  Epoch* first_;
};

/// The flags by which a receiver hears of arrivals.
struct HostFlags {
  Flags even;  ///< of even epochs
  Flags odd;
  bool tell_all;  ///< nothing arrives without a flag: who finds none raised need not ask the link

  std::int64_t first_not_raised(Range run, Epoch epoch) const {
    return (epoch % 2 == 0 ? even : odd).first_not_raised(run, epoch);
  }
};

}  // namespace partita::link
