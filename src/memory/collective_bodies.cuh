// The body of the library's kernel that does a collective: that of the calls within kernels, but that launches take the
// place of the grid's barriers.
#pragma once

#include <partita/device/impl/collective.cuh>
#include "memory/kernels.hpp"

namespace partita::memory {

/// All threads of all blocks of a grid. What it returns was recorded, too.
PARTITA_DEVICE_INLINE int do_collective(const DoCollective& arguments) {
  constexpr device::Edges launches = device::Edges::launches;
  const Partita_Prequest& request = arguments.request;
  switch (request.collective) {
    case PARTITA_COLLECTIVE_ALLREDUCE:
      return device::pcollective<PARTITA_COLLECTIVE_ALLREDUCE, launches>(request);
    case PARTITA_COLLECTIVE_ALLGATHER:
      return device::pcollective<PARTITA_COLLECTIVE_ALLGATHER, launches>(request);
    case PARTITA_COLLECTIVE_REDUCE_SCATTER:
      return device::pcollective<PARTITA_COLLECTIVE_REDUCE_SCATTER, launches>(request);
    case PARTITA_COLLECTIVE_ALLTOALL:
      return device::pcollective<PARTITA_COLLECTIVE_ALLTOALL, launches>(request);
    default:
      return device::pcollective<PARTITA_COLLECTIVE_BCAST, launches>(request);
  }
}

}  // namespace partita::memory
