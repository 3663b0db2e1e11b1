// The ways to exchange the halo: two in plain MPI (mpi.cpp), one with partitioned communication (partita.cpp).
#pragma once

#include <array>
#include <string_view>

#include "apps/jacobi2d/solver.hpp"

namespace jacobi2d {

/// Each solves the plate from its present state, which is that after Plate::reset. Collective over the plate's
/// communicator.
Outcome solve_nonblocking(const Plate& plate, const Limits& limits);
Outcome solve_persistent(const Plate& plate, const Limits& limits);
Outcome solve_partitioned(const Plate& plate, const Limits& limits);

struct Mode {
  std::string_view name;
  Outcome (*solve)(const Plate&, const Limits&);
};

inline constexpr std::array modes{
    Mode{"nonblocking", solve_nonblocking},
    Mode{"persistent", solve_persistent},
    Mode{"partitioned", solve_partitioned},
};

}  // namespace jacobi2d
