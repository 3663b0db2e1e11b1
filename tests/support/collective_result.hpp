// What is in the buffers of a collective before and after.
#pragma once

#include <string>

#include "support/collective_case.hpp"
#include "support/schedule_simulator.hpp"

namespace partita::test {

/// Bytes that differ by epoch, rank, partition and block. What ⊕ does is associative; it commutes where the shape says
/// so.
Contents contents_of(const Shape& shape, int epoch);

/// The first block that holds something else than it must after an epoch, or the first change elsewhere; or nothing.
std::string wrong_result(const Case& made, const Simulator& simulator, int partitions, const Contents& contents);

}  // namespace partita::test
