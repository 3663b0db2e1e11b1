// The body of the library's kernel that does a collective: that of the calls within kernels.
#pragma once

#include <partita/device/impl/collective.cuh>
#include "memory/kernels.hpp"

namespace partita::memory {

/// All threads of all blocks of a grid. What it returns was recorded, too.
PARTITA_DEVICE_INLINE int do_collective(const DoCollective& arguments) {
  const Partita_Prequest& request = arguments.request;
  switch (request.collective) {
    case PARTITA_COLLECTIVE_ALLREDUCE:
      return device::pcollective<PARTITA_COLLECTIVE_ALLREDUCE>(request);
    case PARTITA_COLLECTIVE_ALLGATHER:
      return device::pcollective<PARTITA_COLLECTIVE_ALLGATHER>(request);
    case PARTITA_COLLECTIVE_REDUCE_SCATTER:
      return device::pcollective<PARTITA_COLLECTIVE_REDUCE_SCATTER>(request);
    case PARTITA_COLLECTIVE_ALLTOALL:
      return device::pcollective<PARTITA_COLLECTIVE_ALLTOALL>(request);
    default:
      return device::pcollective<PARTITA_COLLECTIVE_BCAST>(request);
  }
}

}  // namespace partita::memory
