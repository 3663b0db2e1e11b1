// The gradient summed by plain MPI; its twin with partitions is partita.cpp.
#include <mpi.h>

#include <vector>

#include "apps/bce/gradient.hpp"
#include "apps/support/clock.hpp"
#include "apps/support/own_mpi.hpp"

namespace bce {
namespace {

using partita::apps::Clock;
using partita::apps::seconds_since;

/// The usual way: the whole gradient is computed, then summed.
class Allreduce final : public Summing {
 public:
  Allreduce(MPI_Comm comm, const Gradient& gradient, int threads)
      : comm_(comm), gradient_(gradient), threads_(threads) {}

  double step(const PartWork& compute, const PartWork& use) override {
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int part = 0; part < gradient_.parts; ++part) compute(part);
    const auto computed = Clock::now();
    allreduce_(gradient_.own.data(), gradient_.sum.data(), static_cast<int>(gradient_.own.size()), MPI_DOUBLE, MPI_SUM,
               comm_);
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int part = 0; part < gradient_.parts; ++part) use(part);
    return seconds_since(computed);
  }

 private:
  decltype(&PMPI_Allreduce) allreduce_ = PARTITA_OF_MPI(Allreduce);
  MPI_Comm comm_;
  Gradient gradient_;
  int threads_;
};

/// As libraries for learning do it: a collective for each bucket of the gradient, begun when that is there. All ranks
/// must begin them in one order, so a part waits for those before it, however long they take.
class Nonblocking final : public Summing {
 public:
  Nonblocking(MPI_Comm comm, const Gradient& gradient, int threads)
      : comm_(comm), gradient_(gradient), threads_(threads), requests_(static_cast<std::size_t>(gradient.parts)) {}

  double step(const PartWork& compute, const PartWork& use) override {
    const int size = gradient_.part_size();
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1) ordered
    for (int part = 0; part < gradient_.parts; ++part) {
      compute(part);
#pragma omp ordered
      {
        const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(part) * size;
        iallreduce_(gradient_.own.data() + first, gradient_.sum.data() + first, size, MPI_DOUBLE, MPI_SUM, comm_,
                    &requests_[static_cast<std::size_t>(part)]);
      }
    }
    const auto computed = Clock::now();
    // One thread waits, and the others use what has come meanwhile.
#pragma omp parallel num_threads(threads_)
#pragma omp single
    for (int part = 0; part < gradient_.parts; ++part) {
      wait_(&requests_[static_cast<std::size_t>(part)], MPI_STATUS_IGNORE);
#pragma omp task firstprivate(part)
      use(part);
    }
    return seconds_since(computed);
  }

 private:
  decltype(&PMPI_Iallreduce) iallreduce_ = PARTITA_OF_MPI(Iallreduce);
  decltype(&PMPI_Wait) wait_ = PARTITA_OF_MPI(Wait);
  MPI_Comm comm_;
  Gradient gradient_;
  int threads_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Summing> sum_by_allreduce(MPI_Comm comm, const Gradient& gradient, int threads) {
  return std::make_unique<Allreduce>(comm, gradient, threads);
}

std::unique_ptr<Summing> sum_by_nonblocking(MPI_Comm comm, const Gradient& gradient, int threads) {
  return std::make_unique<Nonblocking>(comm, gradient, threads);
}

}  // namespace bce
