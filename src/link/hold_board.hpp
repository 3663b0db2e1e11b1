// What a sender holds back so that neighbours leave together, in memory that the receiver maps: the receiver fetches
// what waits too long (docs/design/partitioned.md, "Merging by time").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/epoch.hpp"
#include "link/plan.hpp"

namespace partita::link {

/// A number that tells one set of waiting transport partitions from another; 0: none. `waiting_in(first)` has those of
/// the 64 from `first` on, a bit each.
template <class WaitingIn>
std::uint64_t number_of_waiting(std::int64_t transports, WaitingIn waiting_in) {
  std::uint64_t mixed = 0;
  for (std::int64_t first = 0; first < transports; first += 64) {
    const std::uint64_t waiting = waiting_in(first);
    if (waiting != 0) mixed = (mixed ^ (waiting + static_cast<std::uint64_t>(first))) * 0x9e3779b97f4a7c15U | 1;
  }
  return mixed;
}

/// A view of that memory, which begins zeroed. The sender's threads add complete partitions to it; whoever lets a
/// transport partition leave, a thread of the sender's or the receiver, claims it first, for one epoch. Cheap to copy.
class HoldBoard {
 public:
  static constexpr int bits = 64;  ///< partitions in a word

  HoldBoard(std::byte* block, std::int32_t partitions) : block_(block), partitions_(partitions) {}
  /// What a send of so many partitions takes.
  static std::size_t size_bytes(std::int32_t partitions);

  /// The complete partitions, a bit each, `bits` in a word. Whoever adds one releases its bytes. The sender's.
  std::atomic<std::uint64_t>* complete_bits() const;

  /// What is complete in `epoch` may wait from here on. Nothing has left yet. The sender's, while nobody adds.
  void begin(Epoch epoch) const;
  /// Nothing waits any more: what the receiver has claimed and not counted by now does not count. The sender's.
  void end() const;
  /// How many transport partitions the receiver has fetched since begin(). Acquires that it has read their bytes.
  std::int32_t fetched() const;

  /// Whether partitions of `epoch` may wait. Acquires what begin() released.
  bool holds(Epoch epoch) const;
  /// Whether they still may, behind all that the caller has read before. The receiver's.
  bool still_holds(Epoch epoch) const;
  /// Which of the `bits` transport partitions from `first` on, a multiple of `bits`, have left in `epoch`: all where
  /// that is not the epoch.
  std::uint64_t left(std::int64_t first, Epoch epoch) const;
  /// Claims `wanted` of them; what of it nobody has claimed before in `epoch`.
  std::uint64_t claim(std::int64_t first, std::uint64_t wanted, Epoch epoch) const;

  /// Which of those transport partitions of `plan` are complete and have not left. Acquires their bytes. The
  /// receiver's.
  std::uint64_t held(const Plan& plan, std::int64_t first, Epoch epoch) const;
  /// The bytes of so many transport partitions lie at the receiver. The receiver's.
  void count_fetched(std::int32_t count) const;

 private:
  /// How far `half` words of 32 transport partitions have left: the epoch in the high half, a bit each in the low one.
  std::atomic<std::uint64_t>& left_word(std::int64_t half) const;
  std::uint64_t left_of(std::int64_t half, Epoch epoch) const;
  bool is_complete(Range send_partitions) const;

  std::byte* block_;
  std::int32_t partitions_;
};

}  // namespace partita::link
