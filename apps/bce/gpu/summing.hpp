// The ways to sum the gradient between GPUs; each is a class of one file, and they share everything else.
#pragma once

#include <mpi.h>

#include <memory>

#include "apps/bce/gpu/kernels.hpp"
#include "apps/support/cuda_memory.hpp"
#include "apps/support/nccl.hpp"
#include "apps/support/two_nodes.hpp"

namespace bce::gpu {

/// What a mode works on.
struct Rank {
  MPI_Comm comm;
  const Model& model;
  const partita::apps::Stream& stream;
  int training_blocks;  ///< of a kernel of all steps: all ranks' run at once
};

/// Steps of one mode, always on the same model.
class Steps {
 public:
  virtual ~Steps() = default;
  /// Takes steps from `first` on. May return before they have ended on the stream. Throws std::runtime_error if a
  /// kernel or a peer fails.
  virtual void take(int first, int count) = 0;
  /// When all have ended on the stream: throws where a kernel has failed.
  virtual void look() const {}
};

/// Kernel, stream synchronise, then MPI_Allreduce past the drop-in through page-locked host memory (mpi.cpp).
std::unique_ptr<Steps> steps_by_allreduce(const Rank& rank);
/// Kernels mark the parts of a partitioned allreduce; hosts open its epochs and walk its schedule (partita.cpp).
std::unique_ptr<Steps> steps_by_schedule(const Rank& rank);
/// Kernels do the allreduce themselves; `all_at_once`: one kernel takes all steps, else one a step (partita.cpp).
std::unique_ptr<Steps> steps_in_kernels(const Rank& rank, bool all_at_once);
/// Kernels sum in a node and hosts between two; the features divide by the ranks of a node (two_level.cpp).
std::unique_ptr<Steps> steps_in_two_levels(const Rank& rank, const partita::apps::TwoNodes& nodes);
/// NCCL's allreduce behind the kernels in one stream; no host waits (nccl.cpp).
std::unique_ptr<Steps> steps_by_nccl(const Rank& rank, partita::apps::Nccl& nccl);

}  // namespace bce::gpu
