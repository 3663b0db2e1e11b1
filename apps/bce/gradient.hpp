// A gradient that is summed over the ranks part by part.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>

namespace bce {

/// What a step does with a part of the gradient, from 0 on.
using PartWork = std::function<void(int part)>;

/// The gradient of this rank and the sum of those of all ranks: parts of equal size, one behind the other.
struct Gradient {
  std::span<double> own, sum;
  int parts = 1;

  int part_size() const { return static_cast<int>(own.size()) / parts; }
};

/// Sums a gradient, always the same memory, again and again.
class Summing {
 public:
  virtual ~Summing() = default;
  /// Has `compute` put each part's own gradient there and `use` take each part's sum: on several threads at once, `use`
  /// of a part when its sum is there. Collective. Returns the seconds from the last part's end of `compute` on.
  virtual double step(const PartWork& compute, const PartWork& use) = 0;
};

/// By plain MPI, past the drop-in: one MPI_Allreduce behind all parts, or an MPI_Iallreduce for each (mpi.cpp).
std::unique_ptr<Summing> sum_by_allreduce(MPI_Comm comm, const Gradient& gradient, int threads);
std::unique_ptr<Summing> sum_by_nonblocking(MPI_Comm comm, const Gradient& gradient, int threads);
/// By one partitioned allreduce (partita.cpp).
std::unique_ptr<Summing> sum_by_partitions(MPI_Comm comm, const Gradient& gradient, int threads);

}  // namespace bce
