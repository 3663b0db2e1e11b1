// bce on GPUs, one process a GPU: what is the same in a build with CUDA and in one without.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bce/model.hpp"

namespace bce::gpu {

/// How a training went on this rank.
struct Run {
  std::vector<double> weights;
  std::vector<double> losses;  ///< the sum over this rank's samples before each step
  double time_s = 0, exposed_s = 0, setup_s = 0;
};

/// The samples and the model on this rank's GPU, for runs in any mode one after the other.
class Trainer {
 public:
  /// Chooses this rank's GPU among those of its node. Collective over `world`. What stands in the way, as a sentence,
  /// the same on every rank; nothing if GPUs can be used.
  static std::optional<std::string> choose_device(MPI_Comm world);

  /// After choose_device. `samples` are copied. `nccl_path`: of the library for mode nccl; empty: the usual names.
  /// Throws std::runtime_error if the GPU has no memory. Collective.
  Trainer(MPI_Comm comm, const Problem& problem, const Samples& samples, int parts, const std::string& nccl_path);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// The GPUs of the job, for people: "NVIDIA H200, a GPU for each rank".
  std::string describe() const;
  /// Why `mode` cannot run in this job, the same on every rank; nothing if it can. Collective.
  std::optional<std::string> problem_with(std::string_view mode) const;
  /// Trains from weights of 0 on. Collective. Throws std::runtime_error if the GPU or a peer fails.
  Run run(std::string_view mode, int steps);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace bce::gpu
