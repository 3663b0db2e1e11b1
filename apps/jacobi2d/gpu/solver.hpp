// jacobi2d on GPUs, one process a GPU: what is the same in a build with CUDA and in one without.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/plate.hpp"
#include "apps/jacobi2d/problem.hpp"
#include "apps/jacobi2d/solver.hpp"

namespace jacobi2d::gpu {

/// Cells of a partition of a halo, unless the user says otherwise: what one thread block computes and sends at once.
inline constexpr int partition_cells = 1024;

/// Partitions that a halo of `division` shall have, unless the user says otherwise; the same on every rank.
inline int wanted_partitions(const Division& division) {
  const int longest = std::max(division.rows / division.rank_rows, division.columns / division.rank_columns);
  return std::max(1, (longest + partition_cells / 2) / partition_cells);
}

/// In the order in which they run; the first is what the others are compared with.
inline constexpr std::array<std::string_view, 6> mode_names{"traditional", "traditional-device", "engine",
                                                            "kernel",      "persistent-kernel",  "nccl"};

/// The plate on this rank's GPU, for runs in any mode one after the other.
class Solver {
 public:
  /// Chooses this rank's GPU among those of its node. Collective over `world`. What stands in the way, as a sentence,
  /// the same on every rank; nothing if GPUs can be used.
  static std::optional<std::string> choose_device(MPI_Comm world);

  /// After choose_device. `plate` outlives the solver. `nccl_path`: of the library for mode nccl; empty: the usual
  /// names. Throws std::runtime_error if the GPU has no memory. Collective.
  Solver(Plate& plate, const std::string& nccl_path);
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  /// The GPUs of the job, for people: "NVIDIA H200, a GPU for each rank".
  std::string describe() const;
  /// Why `mode` cannot run in this job, the same on every rank; nothing if it can. Collective.
  std::optional<std::string> problem_with(std::string_view mode) const;

  /// Solves the plate from its present state, which is that after Plate::reset, and brings the last field back to it.
  /// Collective. Throws std::runtime_error if the GPU or a peer fails.
  Outcome solve(std::string_view mode, const Limits& limits);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// The solution computed by this rank's GPU alone.
class Reference {
 public:
  Reference(const Division& division, const Problem& problem);
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  /// The field after `iterations` iterations, on the host. Goes on from where the last call ended if it can. Blocks.
  const Field& after(int iterations);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace jacobi2d::gpu
