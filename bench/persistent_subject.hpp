// The yardstick: a persistent send of the same MPI, called by its profiling names so that no drop-in takes part.
#pragma once

#include <memory>

#include "bench/options.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

inline constexpr const char* persistent_name = "persistent";

/// Sends on a duplicate of `comm`. Collective.
std::unique_ptr<Subject> make_persistent(MPI_Comm comm, Memory memory);

}  // namespace partita::bench
