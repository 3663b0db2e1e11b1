// The ways to exchange the halo between GPUs; each file is one, and they share everything else.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "apps/jacobi2d/gpu/device_block.hpp"
#include "apps/jacobi2d/plate.hpp"
#include "apps/jacobi2d/solver.hpp"
#include "apps/support/nccl.hpp"

namespace jacobi2d::gpu {

/// What a mode works on.
struct Rank {
  const Plate& plate;
  DeviceBlock& cells;
  const Stream& stream;
  int multiprocessors;
  bool shares_gpu;  ///< with another rank: kernels of both take turns, so that none may wait for the other
};

/// Kernel, stream synchronise, then MPI from the host, through page-locked host memory.
Outcome solve_traditional(const Rank& rank, const Limits& limits);
/// Kernel, stream synchronise, then partitioned sends of GPU memory that the host marks.
Outcome solve_traditional_device(const Rank& rank, const Limits& limits);
/// Kernels mark partitions; `copy` says who moves them, kernel or engine (info key partita_gpu_copy).
Outcome solve_partitioned(const Rank& rank, const Limits& limits, const std::string& copy);
/// The whole solve is one kernel on each GPU.
Outcome solve_persistent(const Rank& rank, const Limits& limits);
std::optional<std::string> problem_with_persistent(const Rank& rank);
/// NCCL's send and receive of the edges, in a stream of their own beside the interior's.
Outcome solve_nccl(const Rank& rank, const Limits& limits, partita::apps::Nccl& nccl);

/// The largest change of an iteration, which the kernel leaves in host memory.
class ChangeWord {
 public:
  explicit ChangeWord(const Stream& stream) : stream_(stream), device_(1), host_(1) {}

  /// Before the launch of the iteration: where its kernel writes.
  unsigned long long* begin() const;
  /// Waits for the stream.
  double end() const;

 private:
  const Stream& stream_;
  DeviceMemory<unsigned long long> device_;
  PinnedMemory<unsigned long long> host_;
};

/// Seconds of `work` until every rank has done with it. Collective.
template <class Work>
double timed_together(MPI_Comm comm, Work&& work) {
  MPI_Barrier(comm);
  const auto begin = std::chrono::steady_clock::now();
  work();
  MPI_Barrier(comm);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace jacobi2d::gpu
