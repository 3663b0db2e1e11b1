// Runs of the app: transforms there and back, timed and checked.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "apps/fft/check.hpp"
#include "apps/fft/transform.hpp"

namespace fft {

/// How a run went on this rank.
struct Outcome {
  int iterations = 0;
  double time_s = 0;               ///< of all iterations, between two barriers
  double exchange_s = 0;           ///< of it, in calls of the exchange
  double setup_s = 0;              ///< before it, from a barrier on, for memory, plans and requests
  std::vector<std::string> links;  ///< Transform::links
  bool checked = false;
  double spectrum_error = 0, input_error = 0;  ///< where checked; the same on every rank
};

/// What a run does.
struct Runs {
  int iterations = 10;  ///< transforms there and back that are timed; one comes before them
  bool verify = true;
  Against against = Against::definition;
};

/// Collective. On long runs rank 0 reports progress to standard error. `name`: the exchange's, for that. Throws where
/// memory, communication or a GPU fails.
Outcome run(MPI_Comm comm, const Problem& problem, std::string_view name, Spacing spacing, const WorkMaker& make_work,
            const ExchangeMaker& make_exchange, const Runs& runs);

}  // namespace fft
