// The collectives that there is a choice of algorithms for, by Partita's persistent calls and the MPI's blocking ones.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <cstdint>
#include <span>

#include "collective/problem.hpp"

namespace partita::bench::tune {

using collective::Kind;
using collective::name_of;

using Element = std::int32_t;
inline constexpr std::int64_t element_bytes = sizeof(Element);

/// Buffers with room for a block of every rank each, and the elements of a block. A broadcast uses the receive buffer
/// only.
struct Buffers {
  const void* sent;
  void* received;
  int count;
  int ranks;
};

/// Rank 0 is the root; all blocks are equal, also where they might differ.
struct TunedCollective {
  Kind kind;
  int (*init)(const Buffers&, MPI_Comm, MPI_Info, Partita_Request*);
  int (*of_mpi)(const Buffers&, MPI_Comm);
};

std::span<const TunedCollective> tuned_collectives();

}  // namespace partita::bench::tune
