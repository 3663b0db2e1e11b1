// The bodies of the library's kernels that do a collective: those of the calls within kernels, but that launches take
// the place of the grid's barriers.
#pragma once

#include <partita/device/impl/collective.cuh>
#include <partita/device/impl/reductions.cuh>
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

/// All threads of all blocks of a grid.
PARTITA_DEVICE_INLINE void reduce_pushed(const ReducePushed& arguments) {
  using namespace device;
  const Partita_Prequest& request = arguments.request;
  const bool goes_on = block_rank() == 0 && refusal_of_pushed(*request.state, request.life) == 0 &&
                       newest_complete(request) == arguments.before;
  if (!block_any(goes_on)) return;
  constexpr int sources = 4;
  reduce_pieces<sources>(request, {grid_rank(), all_pieces(request), grid_blocks()}, arguments.before,
                         Inputs::only_if_there);
}

}  // namespace partita::memory
