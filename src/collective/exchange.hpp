// The exchange of each rank with each, by messages of one block.
#pragma once

#include "collective/problem.hpp"

namespace partita::collective {

/// In place a block is copied away before it is sent, and one that comes lands in a slot until then. `in_steps`: the
/// exchange with the next partner starts when the one before is over.
Schedule exchange(const Problem& problem, bool in_steps);

}  // namespace partita::collective
