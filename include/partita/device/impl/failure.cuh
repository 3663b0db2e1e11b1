// What a kernel finds wrong, and waits that end.
#pragma once

#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

/// Records the first failure of a request for its host. The claim is taken in GPU memory, so that the host's words are
/// written by one thread only. The words of a freed request may be another's by now: nothing is recorded there. Kept
/// out of the callers' code, which has registers to save.
PARTITA_DEVICE_OUT_OF_LINE void record_failure(Partita_Prequest_state& state, Partita_Prequest_host& host,
                                               partita_u32 life, int code, int partition, Epoch epoch) {
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  if ((live & ~life_released) != life) return;
  partita_u32 none = 0;
  if (!DeviceWord<partita_u32>(state.failed)
           .compare_exchange_strong(none, 1, order::memory_order_relaxed, order::memory_order_relaxed)) {
    return;
  }
  SystemWord<partita_i32>(host.failure_partition).store(partition, order::memory_order_relaxed);
  SystemWord<partita_u32>(host.failure_epoch).store(epoch, order::memory_order_relaxed);
  // Pairs with the acquire load of the next host call on the request, which then reads the two words above.
  SystemWord<partita_u32>(host.failure).store(static_cast<partita_u32>(code), order::memory_order_release);
}

/// Records it and gives `code` back.
PARTITA_DEVICE_INLINE int fail(const Partita_Prequest& request, int code, int partition, Epoch epoch) {
  record_failure(*request.state, *request.host, request.life, code, partition, epoch);
  return code;
}

/// Why calls on a request whose state has this `live`, which is not its own life, go no further.
PARTITA_DEVICE_INLINE int code_of_life(partita_u32 live, const Partita_Prequest& request) {
  return live == (request.life | life_released) ? PARTITA_DEVICE_ERR_ABORTED : PARTITA_DEVICE_ERR_FREED;
}

/// A look of a thread that waits, after many vain polls: at the host's abort and at the clock. `since_ns`: when the
/// first one was, 0 in the first. Gives that, or the code with which the wait ends, which is smaller than any time.
PARTITA_DEVICE_OUT_OF_LINE partita_u64 look_up(Partita_Prequest_host& host, partita_u64 limit_ns,
                                               partita_u64 since_ns) {
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

  /// Called after every vain poll: 0, or the code with which the wait ends. A host word costs a GPU more than a
  /// microsecond, so that the host's abort and the clock are looked at once in polls_per_look.
  PARTITA_DEVICE_INLINE int look() {
    relax();
    if (--polls_left_ != 0) return 0;
    polls_left_ = polls_per_look;
    since_ns_ = look_up(*request_.host, request_.limit_ns, since_ns_);
    return since_ns_ <= PARTITA_DEVICE_ERR_ABORTED ? static_cast<int>(since_ns_) : 0;
  }

 private:
  const Partita_Prequest& request_;
  partita_u32 polls_left_ = polls_per_look;
  partita_u64 since_ns_ = 0;
};

}  // namespace partita::device
