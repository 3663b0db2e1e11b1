// How a thread waits, and how its wait ends.
#pragma once

#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

/// A far look of a thread that waits: at the host's abort and at the clock. `since_ns`: when the first one was, 0 in
/// the first. Gives that, or the code with which the wait ends, which is smaller than any time. Inlined: what a call
/// fixes its arguments to takes every kernel that waits more registers than this does.
PARTITA_DEVICE_INLINE partita_u64 look_up(Partita_Prequest_host& host, partita_u64 limit_ns, partita_u64 since_ns) {
  // Pairs with nothing but itself: the kernel only ends.
  if (SystemWord<partita_u32>(host.abort).load(order::memory_order_relaxed) != 0) return PARTITA_DEVICE_ERR_ABORTED;
  const partita_u64 now = now_ns();
  if (since_ns == 0) return now;
  return limit_ns != 0 && now - since_ns > limit_ns ? partita_u64{PARTITA_DEVICE_ERR_TIMEOUT} : since_ns;
}

/// Belongs to one wait of one thread.
class Patience {
 public:
  MPIX_Device explicit Patience(const Partita_Prequest& request) : request_(request) {}

  /// Called after every vain poll: 0, or the code with which the wait ends.
  PARTITA_DEVICE_INLINE int look() {
    relax();
    if (++polls_ % polls_per_look != 0) return 0;
    // Written by the host's copy engine; pairs with nothing but itself, as the host's word does.
    const partita_u32 live = SystemWord<partita_u32>(request_.state->live).load(order::memory_order_relaxed);
    if (live != request_.life) return code_of_life(live, request_);
    // That word may come late: where a program has more streams than the GPU has queues for them, what the host writes
    // to GPU memory can stand behind work that waits for this very kernel. So the host's own word is looked at, too.
    if (polls_ % polls_per_far_look != 0) return 0;
    since_ns_ = look_up(*request_.host, request_.limit_ns, since_ns_);
    return since_ns_ <= PARTITA_DEVICE_ERR_ABORTED ? static_cast<int>(since_ns_) : 0;
  }

 private:
  const Partita_Prequest& request_;
  partita_u32 polls_ = 0;
  partita_u64 since_ns_ = 0;
};

/// No load takes longer twice. A thread that is interrupted between two looks at the clock, and perhaps goes on
/// elsewhere, would take nonsense for the length of a trip.
inline constexpr partita_u32 longest_half_trip_cycles = 1000;

/// Waits for what `poll` loads; `*value` is that then. Gives 0, or the code with which the wait ended. Two loads are on
/// their way half a trip apart, so that what comes is seen a quarter of a trip after it is there on the average, not
/// half of one. They acquire nothing: an acquire_fence follows where something hangs on them.
template <class Poll, class Value>
PARTITA_DEVICE_INLINE int await(const Poll& poll, Patience& patience, Value* value) {
  const partita_u32 begin = clock_cycles();
  *value = poll.load();
  if (poll.is_there(*value)) return 0;
  const partita_u32 seen = clock_cycles();
  const partita_u32 half_trip = (seen - begin) / 2;
  const partita_u32 pause = half_trip < longest_half_trip_cycles ? half_trip : longest_half_trip_cycles;
  Value other = poll.load();
  while (clock_cycles() - seen < pause) continue;
  for (;;) {
    *value = poll.load();
    if (poll.is_there(other)) {
      *value = other;
      return 0;
    }
    other = poll.load();
    if (poll.is_there(*value)) return 0;
    if (const int code = patience.look()) return code;
  }
}

/// A word, SystemWord or DeviceWord, until it is `wanted`.
template <template <class> class Word>
struct WordPoll {
  partita_u32* word;
  partita_u32 wanted;

  PARTITA_DEVICE_INLINE partita_u32 load() const { return Word<partita_u32>(*word).load(order_before_fence); }
  PARTITA_DEVICE_INLINE bool is_there(partita_u32 value) const { return value == wanted; }
};

}  // namespace partita::device
