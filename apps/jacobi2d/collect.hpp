// Rank 0 takes what the ranks computed.
#pragma once

#include <vector>

#include "apps/jacobi2d/plate.hpp"
#include "apps/support/collect.hpp"

namespace jacobi2d {

using partita::apps::decide_on_rank_0;

/// The whole grid's cells of `field`, row by row without halo, on rank 0; empty elsewhere. Collective.
std::vector<double> gather(const Plate& plate, const Field& field);

}  // namespace jacobi2d
