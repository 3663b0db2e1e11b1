// What the root of a bcast whose marks push (pushes.cuh) knows of the other ranks: who has opened an epoch has done
// with what came in the one before, and gives the root a credit for it. Kernels store it in the root's GPU and in its
// host memory, hosts in the latter.
#pragma once

#include <partita/device/impl/in_vain.cuh>
#include <partita/device/impl/pushed_epochs.cuh>
#include <partita/device/impl/wait.cuh>

namespace partita::device {

// ---- At a rank that is not the root --------------------------------------------------------------------------------

/// One thread, which has opened `epoch`.
PARTITA_DEVICE_OUT_OF_LINE void give_credit(Partita_Prequest_state* state, Epoch epoch) {
  const Partita_Prequest& request = *copy_of_request(state);
  // Before the credit, without which the epoch does not end, or it might come behind the next one's.
  SystemWord<partita_u32>(request.host->newest_marked).store(epoch, order::memory_order_relaxed);
  release_fence();  // pairs with the acquires of the root's looks: what came before was read
  // This word counts, and the host writes it, too: it is there before the root can know. The one in GPU memory may come
  // behind the end of the epoch, and then say less than this one.
  SystemWord<partita_u32>(*request.peers[request.root].host_words).store(epoch, order_after_fence);
  release_fence();
  SystemWord<partita_u32>(*credit_in_inbox(inbox_at(request, request.root))).store(epoch, order_after_fence);
}

// ---- At the root ---------------------------------------------------------------------------------------------------

/// Whether the newest credit of `rank` in GPU memory, or that in host memory, is for `epoch`. An acquire_fence follows
/// where something hangs on it.
PARTITA_DEVICE_INLINE bool has_credit_on_gpu(const Partita_Prequest& request, partita_i32 rank, Epoch epoch) {
  partita_u32* const word = credit_in_inbox(inbox_of(request, rank));
  return reached(SystemWord<partita_u32>(*word).load(order_before_fence), epoch);
}
PARTITA_DEVICE_INLINE bool has_credit_on_host(const Partita_Prequest& request, partita_i32 rank, Epoch epoch) {
  return reached(SystemWord<partita_u32>(*request.peers[rank].host_words).load(order_before_fence), epoch);
}

/// One thread: whether all other ranks have opened `epoch`.
PARTITA_DEVICE_INLINE bool have_all_opened(const Partita_Prequest& request, Epoch epoch) {
  bool all = true;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; all && n < request.ranks; ++n) {
    const partita_i32 rank = rank_behind(request, n);
    all = has_credit_on_gpu(request, rank, epoch) || has_credit_on_host(request, rank, epoch);
  }
  acquire_fence();
  return all;
}

/// This thread's part of a block's wait until all other ranks have opened `epoch`; a barrier tells the block.
PARTITA_DEVICE_INLINE int await_credits_of_all(const Partita_Prequest& request, Epoch epoch) {
  int code = 0;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (auto n = static_cast<partita_i32>(block_rank()) + 1; code == 0 && n < request.ranks;
       n += static_cast<partita_i32>(block_threads())) {
    const partita_i32 rank = rank_behind(request, n);
    Patience patience(request);
    constexpr partita_u32 each = 4;  // the host's word takes longer than the GPU's
    for (partita_u32 polls = 0; code == 0; ++polls) {
      if (has_credit_on_gpu(request, rank, epoch)) break;
      if (polls % each == 0 && has_credit_on_host(request, rank, epoch)) break;
      code = patience.look();
    }
  }
  if (block_rank() + 1 < static_cast<partita_u32>(request.ranks)) acquire_fence();  // of those that have loaded
  return code;
}

/// One thread of the root, which opens the epoch behind `before`: where hosts open epochs the words in GPU memory keep
/// older numbers, which are set back before they come again. A credit that is lost by it stands in host memory.
PARTITA_DEVICE_OUT_OF_LINE void forget_credits(Partita_Prequest_state* state, Epoch before) {
  const Partita_Prequest& request = *copy_of_request(state);
#if defined(__CUDACC__)
#pragma unroll 1
#endif
  for (partita_i32 n = 1; n < request.ranks; ++n) {
    partita_u32* const word = credit_in_inbox(inbox_of(request, rank_behind(request, n)));
    SystemWord<partita_u32>(*word).store(before, order::memory_order_relaxed);
  }
}

/// One thread of the root: whether some thread has noted in `head` that all other ranks have opened `epoch`.
PARTITA_DEVICE_INLINE bool is_credited(const Partita_Prequest& request, Epoch epoch) {
  const partita_u64 head = DeviceWord<partita_u64>(request.state->head).load(order::memory_order_acquire);
  return head == pair_of(epoch, epoch);
}

/// All threads of a block of the root: MPIX_Pbuf_prepare. 0, or the code with which this thread's wait ended.
PARTITA_DEVICE_INLINE int await_credits_of_epoch(const Partita_Prequest& request) {
  const bool first = block_rank() == 0;
  Epoch epoch = no_epoch;
  int code = 0;
  if (first) {
    epoch = next(newest_complete(request));
    if (!is_open(request, epoch)) code = fail(request, PARTITA_DEVICE_ERR_INACTIVE, -1, epoch);
  }
  if (block_any(code != 0)) return static_cast<int>(block_broadcast(static_cast<partita_u32>(code)));
  epoch = block_broadcast(epoch);
  code = await_credits_of_all(request, epoch);
  if (block_any(code != 0)) return end_in_vain(request, code, epoch);
  if (first) raise_head(request, epoch);
  return 0;
}

/// All threads of a block: MPIX_Pbuf_prepare. Where pushes do not go straight inboxes may be written from the start of
/// the epoch on.
PARTITA_DEVICE_OUT_OF_LINE int prepare_pushed(Partita_Prequest_state* state, partita_u32 life) {
  const int code = refusal_of_pushed(*state, life);
  if (block_any(code != 0)) return code != 0 ? code : PARTITA_DEVICE_ERR_ABORTED;
  const Partita_Prequest& request = *copy_of_request(state);
  const bool waits = pushes_straight(request.collective) && request.rank == request.root;
  return waits ? await_credits_of_epoch(request) : 0;
}

}  // namespace partita::device
