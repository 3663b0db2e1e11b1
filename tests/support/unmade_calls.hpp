// Every call of the device API on a device request that nothing is behind: one that was cleared, freed or never made,
// or one to or from MPI_PROC_NULL. Written once for GPUs (tests/gpu) and for CPU threads (tests/device).
#pragma once

#include <partita/device.cuh>

namespace partita::test {

enum class DeviceCall {
  ready,
  ready_thread,
  ready_warp,
  ready_block,
  ready_range,
  arrived,
  wait_partition,
  start,
  prepare,
  wait,
  next,
  next_of_exchange,
  buffer
};
inline constexpr int device_calls = 13;

/// The code that `call` returns, or -1 where it stores or returns what a call that does nothing should not. All threads
/// of a block, which may be one thread.
MPIX_Device inline int code_of(DeviceCall call, int partition, const MPIX_Prequest& prequest, bool to_nobody) {
  int flag = -1;
  switch (call) {
    case DeviceCall::ready:
      return MPIX_Pready(partition, prequest);
    case DeviceCall::ready_thread:
      return MPIX_Pready_thread(partition, prequest);
    case DeviceCall::ready_warp:
      return MPIX_Pready_warp(partition, prequest);
    case DeviceCall::ready_block:
      return MPIX_Pready_block(partition, prequest);
    case DeviceCall::ready_range:
      return MPIX_Pready_range(partition, partition + 1, prequest);
    case DeviceCall::arrived: {
      const int code = MPIX_Parrived(prequest, partition, &flag);
      return flag == (to_nobody ? 1 : 0) ? code : -1;
    }
    case DeviceCall::wait_partition:
      return MPIX_Pwait_partition(partition, prequest);
    case DeviceCall::start:
      return MPIX_Pstart(prequest);
    case DeviceCall::prepare:
      return MPIX_Pbuf_prepare(prequest);
    case DeviceCall::wait:
      return MPIX_Pwait(prequest);
    case DeviceCall::next:
      return MPIX_Pnext(prequest);
    case DeviceCall::next_of_exchange:
      return MPIX_Pnext(prequest, prequest, prequest);
    case DeviceCall::buffer:
      if (MPIX_Pbuffer(partition, prequest) != nullptr) return -1;
      return to_nobody ? PARTITA_DEVICE_SUCCESS : PARTITA_DEVICE_ERR_FREED;
  }
  return -1;
}

/// The collectives of kernels, apart from the others: they take a kernel many registers.
enum class DeviceCollective { allreduce, allgather, reduce_scatter, alltoall, bcast };
inline constexpr int device_collectives = 5;

/// The code that `call` returns. All threads of a block, which may be one thread.
MPIX_Device inline int code_of(DeviceCollective call, const MPIX_Prequest& prequest) {
  switch (call) {
    case DeviceCollective::allreduce:
      return MPIX_Pallreduce(prequest);
    case DeviceCollective::allgather:
      return MPIX_Pallgather(prequest);
    case DeviceCollective::reduce_scatter:
      return MPIX_Preduce_scatter(prequest);
    case DeviceCollective::alltoall:
      return MPIX_Palltoall(prequest);
    case DeviceCollective::bcast:
      return MPIX_Pbcast(prequest);
  }
  return -1;
}

}  // namespace partita::test
