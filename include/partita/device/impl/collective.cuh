// Collectives that the blocks of a grid open, move and complete by themselves, between ranks whose GPUs map each
// other's memory. docs/design/collectives.md, "In kernels", has the protocol.
#pragma once

#include <partita/device/impl/grid.cuh>
#include <partita/device/impl/in_buffers.cuh>
#include <partita/device/impl/in_packets.cuh>
#include <partita/device/impl/in_two_shots.cuh>
#include <partita/device/impl/in_vain.cuh>

namespace partita::device {

/// Why it cannot be made on this request; 0 if it can.
PARTITA_DEVICE_INLINE int refusal_of_collective(const Partita_Prequest& request, partita_u32 kind) {
  constexpr partita_u32 made = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_COLLECTIVE;
  const bool is_one = (request.flags & (PARTITA_PREQUEST_ORIGIN | PARTITA_PREQUEST_COLLECTIVE)) == made;
  if (!is_one || request.collective != kind) return PARTITA_DEVICE_ERR_COLLECTIVE;
  return grid_blocks() == 1 || grid_is_resident() ? 0 : PARTITA_DEVICE_ERR_LAUNCH;
}

/// How the blocks of a grid come together where a call begins and ends.
enum class Edges {
  barriers,  ///< two barriers of the grid: the kernel does more than this call
  launches,  ///< the stream's order: the kernel does nothing else, so that all that comes before it has ended, and what
             ///< comes behind it waits for all of its blocks
};

/// All threads of all blocks of a grid.
template <partita_u32 kind, Edges edges = Edges::barriers>
PARTITA_DEVICE_INLINE int pcollective(const Partita_Prequest& request) {
  if (const int code = refusal_of_collective(request, kind)) return refuse_block_call(request, code, -1);
  const partita_u32 blocks = grid_blocks();
  const bool first = grid_rank() == 0 && block_rank() == 0;
  Partita_Prequest_state& state = *request.state;
  // Loaded before the barrier with which the call begins, so that it is there behind it. The call before has stored it
  // before its own last barrier, that of the block or, of several blocks, of the grid; so each thread finds the newest
  // one. The first thread stores the next one behind this call's first barrier, which comes behind all of these loads;
  // between launches the last block does, behind those of all blocks.
  Epoch flag = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  partita_u32 phase = 0;
  // Every thread of the grid has come, or what the stream had before has ended: the buffers are the call's.
  const Entry entry = edges == Edges::barriers ? first_grid_barrier(request, blocks, &phase) : entry_of_launch(request);
  // Stored behind the last barrier of the call before, when it is known that no thread has failed; so it is loaded
  // behind the first one of this call. Nobody waits for it before there is nothing else to do.
  const Epoch completed = DeviceWord<partita_u32>(state.completed).load(order::memory_order_relaxed);
  const auto tell_begun = [&] {
    // For the host, which tells by it what was lost where a rank ends.
    const Epoch epoch = next(completed);
    if (first) DeviceWord<partita_u64>(state.head).store(pair_of(epoch, epoch), order::memory_order_relaxed);
  };
  int code = 0;
  if (request.algorithm == PARTITA_ALGORITHM_BUFFERS) {
    flag = next(flag);
    code = move_in_buffers<kind>(request, entry, flag, tell_begun);
  } else if (kind == PARTITA_COLLECTIVE_ALLREDUCE && request.algorithm == PARTITA_ALGORITHM_TWO_SHOT) {
    code = move_in_two_shots(request, entry, flag, tell_begun);
  } else {
    code = move_in_packets<kind>(request, entry, flag, tell_begun);
  }
  const auto complete = [&] {
    DeviceWord<partita_u32>(state.completed).store(next(completed), order::memory_order_relaxed);
  };
  if (edges == Edges::launches) {
    // A block that fails is not counted, so that nobody is the last one: the epoch is not complete.
    if (block_any(code != 0)) return end_in_vain(request, code, next(completed));
    if (block_rank() == 0 && is_last_block(request, blocks)) {
      DeviceWord<partita_u32>(state.round).store(flag, order::memory_order_relaxed);
      complete();
    }
    return PARTITA_DEVICE_SUCCESS;
  }
  // Where another thread has failed, this does no harm: no call on the request comes behind that one.
  if (first && code == 0) DeviceWord<partita_u32>(state.round).store(flag, order::memory_order_relaxed);
  if (block_any(code != 0)) return end_in_vain(request, code, next(completed));
  code = blocks == 1 ? 0 : last_grid_barrier(request, phase);
  if (code != 0) return end_in_vain(request, code, next(completed));
  if (first) complete();
  return PARTITA_DEVICE_SUCCESS;
}

}  // namespace partita::device
