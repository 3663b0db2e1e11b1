// The training on the samples of all ranks.
#pragma once

#include <mpi.h>

#include <vector>

#include "apps/bce/gradient.hpp"
#include "apps/bce/model.hpp"

namespace bce {

/// How a training went on this rank.
struct Outcome {
  std::vector<double> weights;
  std::vector<double> losses;  ///< the mean over all samples before each step; the same on all ranks
  double hits = 0;             ///< the share of all samples that the weights put on the right side
  double time_s = 0;           ///< of all steps, between two barriers
  double exposed_s = 0;        ///< of it, from the end of the gradient's computation to the new weights
  double setup_s = 0;          ///< before it, from a barrier on, to make what sums
};

/// Trains by gradient descent.
class Training {
 public:
  /// Collective over `world`, which has a sample a rank at least. The gradient has `parts` parts, which divide the
  /// features.
  Training(MPI_Comm world, const Problem& problem, int parts, int threads);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const Problem& problem() const { return problem_; }
  int parts() const { return parts_; }
  int threads() const { return threads_; }

  /// `steps` from weights of 0 on. Collective. On long runs rank 0 reports progress to standard error.
  Outcome run(const Mode& mode, int steps);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
  Problem problem_;
  int parts_, threads_;
  Samples samples_;
};

}  // namespace bce
