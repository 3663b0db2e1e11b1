// The epochs of a collective whose marks push (pushes.cuh): which one it is, and how it ends.
#pragma once

#include <partita/device/impl/collective_terms.cuh>
#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/pushes.hpp>

namespace partita::device {

/// Whether the calls of this source take collectives whose marks push: a reduction behind a wait costs kernels
/// registers, whatever they wait for, so that only those that ask for it have it.
#if !defined(__CUDACC__) || defined(PARTITA_DEVICE_PUSHED_COLLECTIVES)
inline constexpr bool takes_pushed = true;
#else
inline constexpr bool takes_pushed = false;
#endif

/// Whether its marks push, and the source's calls take it.
PARTITA_DEVICE_INLINE bool is_pushed(partita_u32 flags) {
  if (!takes_pushed) return false;
  constexpr partita_u32 pushed = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_PUSHED;
  return (flags & (PARTITA_PREQUEST_ORIGIN | PARTITA_PREQUEST_PUSHED)) == pushed;
}

PARTITA_DEVICE_INLINE partita_u32* push_words_of(const Partita_Prequest& request, PushWord which) {
  return push_words_of(request.state, which, request.send_partitions);
}
/// This rank's inbox in the memory of `rank`, and the other way round.
PARTITA_DEVICE_INLINE unsigned char* inbox_at(const Partita_Prequest& request, partita_i32 rank) {
  return area_at(request, rank);
}
PARTITA_DEVICE_INLINE unsigned char* inbox_of(const Partita_Prequest& request, partita_i32 rank) {
  const auto index = static_cast<partita_u64>(index_of_inbox(request.rank, rank));
  const partita_u64 bytes = bytes_by_inbox(request.collective, block_bytes(request));
  return request.remote + index * inbox_bytes(request.send_partitions, bytes);
}

/// What a call on a request goes no further for, but for its partition.
PARTITA_DEVICE_INLINE int refusal_of_pushed(Partita_Prequest_state& state, partita_u32 life) {
  const partita_u32 live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  if (live == life) return 0;
  return live == (life | life_released) ? PARTITA_DEVICE_ERR_ABORTED : PARTITA_DEVICE_ERR_FREED;
}

// ---- Which epoch it is ---------------------------------------------------------------------------------------------

/// The epoch before the one that is open, or that opens next. It may be older where nobody has told the caller of the
/// newest one's end.
PARTITA_DEVICE_INLINE Epoch newest_complete(const Partita_Prequest& request) {
  return DeviceWord<partita_u32>(request.state->completed).load(order::memory_order_relaxed);
}

/// Whether marks of this rank count: in a bcast the root alone has something to mark.
PARTITA_DEVICE_INLINE bool may_mark(const Partita_Prequest& request) {
  return !pushes_straight(request.collective) || request.rank == request.root;
}

/// One thread: `epoch` is open, and at a bcast's root all other ranks have opened it, for whoever looks at `head`,
/// unless kernels have gone on to the next one.
PARTITA_DEVICE_INLINE void raise_head(const Partita_Prequest& request, Epoch epoch) {
  DeviceWord<partita_u64> head(request.state->head);
  partita_u64 seen = head.load(order::memory_order_relaxed);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  while (!reached(low_half(seen), next(epoch))) {
    // Pairs with the acquire in is_credited.
    if (head.compare_exchange_strong(seen, pair_of(epoch, epoch), order::memory_order_release,
                                     order::memory_order_relaxed)) {
      return;
    }
  }
}

/// Whether `epoch`, the one behind newest_complete(), is open, or is even over by now: a kernel has opened it, or the
/// host has. The host's word takes a microsecond, and is read only until a mark has counted in the epoch, or, where
/// this rank marks nothing, until a thread has seen it.
PARTITA_DEVICE_INLINE bool is_open(const Partita_Prequest& request, Epoch epoch) {
  const partita_u64 head = DeviceWord<partita_u64>(request.state->head).load(order::memory_order_relaxed);
  if (reached(low_half(head), epoch)) return true;
  auto* const halves = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(request.promise));
  // Pairs with the host's start. It may be any number of epochs behind those that kernels open.
  if (SystemWord<partita_u32>(halves[1]).load(order::memory_order_acquire) != epoch) return false;
  if (!may_mark(request)) raise_head(request, epoch);
  return true;
}

/// One thread: `epoch` is open, for this block and whoever synchronises with it.
PARTITA_DEVICE_INLINE void note_open(const Partita_Prequest& request, Epoch epoch) {
  DeviceWord<partita_u64>(request.state->head).store(pair_of(epoch, epoch), order::memory_order_relaxed);
}

// ---- The end of an epoch -------------------------------------------------------------------------------------------

/// One thread counts towards the end of `epoch`: a partition that is through in it, or that the host was told of the
/// end of the epoch before. Who counts the last of these ends the epoch, tells the host, and counts that towards the
/// next one's end. So of two stores to the host's word the older one never comes last. Who waits for an end waits until
/// the host was told, or the host might open an epoch that is over.
PARTITA_DEVICE_INLINE void count_towards_end(const Partita_Prequest& request, Epoch epoch) {
  Partita_Prequest_state& state = *request.state;
  DeviceWord<partita_u32> decided(state.decided);
  release_fence();
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  // Each addition pairs with the last one, behind which all results lie.
  while (decided.fetch_add(1, order_between_fences) == static_cast<partita_u32>(request.send_partitions)) {
    acquire_fence();
    decided.store(0, order::memory_order_relaxed);
    // Nobody else has raised it, where the host opened the epoch and this rank marks nothing.
    if (!may_mark(request)) note_open(request, epoch);
    release_fence();
    // Pairs with the acquires in begin_push and acquire_results.
    DeviceWord<partita_u32>(state.completed).store(epoch, order_after_fence);
    release_fence();  // a kernel that the host launches when it has seen its word finds the GPU's, too
    SystemWord<partita_u32>(request.host->completed).store(epoch, order_after_fence);
    release_fence();
    // Pairs with the acquire in await_result.
    DeviceWord<partita_u32>(state.started).store(epoch, order_after_fence);
    epoch = next(epoch);
  }
}

}  // namespace partita::device
