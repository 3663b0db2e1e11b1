// Runs of the method, from x = 0 on.
#pragma once

#include <mpi.h>

#include <memory>
#include <string_view>
#include <vector>

#include "apps/cg/machine.hpp"
#include "apps/support/decomposition.hpp"

namespace cg {

/// When a run ends.
struct Limits {
  int iterations = 0;    ///< at most; whole batches
  int batch = 0;         ///< iterations between two looks at the residual
  double tolerance = 0;  ///< how small the residual becomes, by that of x = 0
};

/// How a run went on this rank.
struct Outcome {
  int iterations = 0;
  std::vector<double> residuals;  ///< by that of x = 0: of x = 0, and after each batch; the same on all ranks
  double time_s = 0;              ///< of all iterations, between two barriers
  double setup_s = 0;             ///< before it, from a barrier on, to make and match what the mode needs, and to start
  std::vector<double> solution;   ///< this rank's rows
  bool converged = false;
};

/// The rows of the whole grid that each rank has.
partita::apps::Division divide(const Problem& problem, int ranks);
/// This rank's.
Share share_of(MPI_Comm comm, const Problem& problem);

/// Collective. On long runs rank 0 reports progress to standard error. Throws where communication or a GPU fails.
Outcome run(Machine& machine, const Share& share, std::string_view mode, const Limits& limits);

/// The whole problem on this rank, without messages.
Outcome run_alone(const Problem& problem, const Limits& limits);

}  // namespace cg
