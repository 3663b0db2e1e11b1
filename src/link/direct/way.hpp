// What the four ways of link `direct` between hosts have in common. The receiver chooses the way; a way has a part at
// the sender, which puts, and one at the receiver, which sees arrivals.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "link/facts.hpp"
#include "link/link.hpp"

namespace partita::link::direct {

using EpochWord = std::atomic_ref<Epoch>;

/// What of the sender's memory the receiver writes.
struct alignas(64) SenderWords {
  Epoch credit;          ///< the newest epoch that the receiver has opened
  std::uint64_t pulled;  ///< chunks that it has ever claimed and let go of, where it shares the copy
};

/// What they take, with the board of a send of so many partitions behind them; 0: without one.
inline std::size_t sender_words_bytes(std::int32_t held_partitions) {
  return sizeof(SenderWords) + (held_partitions > 0 ? HoldBoard::size_bytes(held_partitions) : 0);
}
inline HoldBoard board_behind(SenderWords& words, std::int32_t held_partitions) {
  return {reinterpret_cast<std::byte*>(&words + 1), held_partitions};
}

/// The part of a way at the sender. Its calls are those of a Sender.
class Puts {
 public:
  virtual ~Puts() = default;
  virtual void put(Range run, Epoch epoch) = 0;
  virtual bool finished() { return true; }
  virtual void give_up(Epoch) {}
};

/// The part of a way at the receiver. Its calls are those of a Receiver.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  virtual bool arrived(std::int32_t t, Epoch epoch) = 0;
  virtual std::int64_t first_missing(Range run, Epoch epoch) {
    return first_not(run, [&](std::int64_t t) { return arrived(static_cast<std::int32_t>(t), epoch); });
  }
  /// As of the Receiver that only these tell it of arrivals.
  virtual ReceiverFacts facts() const = 0;
};

/// Arrivals in the user's buffer that flags tell of.
class ArrivalsInPlace final : public Arrivals {
 public:
  ArrivalsInPlace(Flags flags, std::byte* buffer) : flags_(flags), buffer_(buffer) {}
  bool arrived(std::int32_t t, Epoch epoch) override { return flags_.raised(t, epoch); }
  std::int64_t first_missing(Range run, Epoch epoch) override { return flags_.first_not_raised(run, epoch); }
  ReceiverFacts facts() const override {
    return {.host_flags = HostFlags{flags_, flags_, true}, .landings = {buffer_, buffer_}};
  }

 private:
  Flags flags_;
  std::byte* buffer_;
};

}  // namespace partita::link::direct
