// The algorithms of one collective at one size, measured against each other.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/tune/collectives.hpp"
#include "bench/tune/memory.hpp"
#include "bench/tune/options.hpp"
#include "collective/tuning.hpp"

namespace partita::bench::tune {

struct Contest {
  const TunedCollective& collective;
  collective::MovedBy by;
  std::int64_t block_bytes;
};

struct Outcome {
  /// Microseconds from one barrier to the end of the next, between which the collective is, on the slowest rank; of
  /// those that could be tried.
  std::vector<std::pair<std::string, double>> medians_us;
  std::vector<std::string> failures;  ///< a sentence for each of the others; of the first rank that could not
};

/// Every algorithm that serves first gives the result that the MPI's own call gives, or Failure ends the measuring;
/// then each has one sample a round, in an order drawn anew. `comm`: known to Partita, errors on it return. Collective;
/// all ranks have the same outcome.
Outcome hold(const Contest& contest, MPI_Comm comm, const Memory& memory, const TuneOptions& options);

}  // namespace partita::bench::tune
