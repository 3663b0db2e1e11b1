// The training on the samples of all ranks.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bce/gpu/trainer.hpp"
#include "apps/bce/model.hpp"

namespace bce {

/// How a training went on this rank.
struct Outcome {
  std::vector<double> weights;
  std::vector<double> losses;  ///< the mean over all samples before each step; the same on all ranks
  double accuracy = 0;         ///< the share of all samples that the weights put on the right side
  double time_s = 0;           ///< of all steps, between two barriers
  double exposed_s = 0;        ///< of it, on the CPU from the end of the gradient's computation to the new weights;
                               ///< on GPUs what the steps take longer than their kernels alone
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
  bool on_gpu() const { return gpu_ != nullptr; }

  /// From now on the samples lie on this rank's GPU, which trains; gpu::Trainer::choose_device has chosen it.
  /// Collective.
  void move_to_gpu(const std::string& nccl_path);
  /// The GPUs of the job, for people; empty where threads train.
  std::string describe_device() const;
  /// Why `mode` cannot run in this job, the same on every rank; nothing if it can. Collective.
  std::optional<std::string> problem_with(std::string_view mode) const;

  /// `steps` from weights of 0 on. Collective. On long runs on the CPU rank 0 reports progress to standard error.
  Outcome run(std::string_view mode, int steps);

 private:
  Outcome run_on_cpu(std::string_view mode, int steps) const;
  Outcome run_on_gpu(std::string_view mode, int steps) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
  Problem problem_;
  int parts_, threads_;
  Samples samples_;
  std::unique_ptr<gpu::Trainer> gpu_;
};

}  // namespace bce
