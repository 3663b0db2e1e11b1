// What a rank computes in host memory, by one thread.
#pragma once

#include "apps/cg/iteration.hpp"
#include "apps/cg/problem.hpp"
#include "apps/support/reachable_memory.hpp"

namespace cg {

/// Rows of the grid, and the vectors of them.
class HostWork final : public Work {
 public:
  /// `rows` rows of the problem from `first_row` on. Throws std::bad_alloc where there is no memory.
  HostWork(const Problem& problem, int first_row, int rows);

  const Vectors& vectors() const { return vectors_; }

  void start() override;
  void apply() override;
  void advance() override;
  void turn() override;
  void finish() override {}
  double residual_square() const override { return numbers().all[static_cast<int>(Product::residual)]; }
  std::vector<double> solution() const override { return {vectors_.x, vectors_.x + vectors_.points()}; }

 private:
  Numbers& numbers() const { return *vectors_.numbers; }

  const Problem problem_;
  const int first_row_;
  const partita::apps::ReachableMemory memory_;
  Vectors vectors_;
};

}  // namespace cg
