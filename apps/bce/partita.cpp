// The gradient summed by a partitioned allreduce; its twin in plain MPI is mpi.cpp.
//
// Whichever thread has computed a part marks it: its sum is under way while the others are computed, in whatever order
// the ranks come to them. Each part is used as soon as its sum has arrived.
#include <mpi.h>
#include <partita/mpix.h>

#include <thread>

#include "apps/bce/gradient.hpp"
#include "apps/support/clock.hpp"

namespace bce {
namespace {

class Partitions final : public Summing {
 public:
  Partitions(MPI_Comm comm, const Gradient& gradient, int threads) : gradient_(gradient), threads_(threads) {
    MPIX_Pallreduce_init(gradient_.own.data(), gradient_.sum.data(), gradient_.parts, gradient_.part_size(), MPI_DOUBLE,
                         MPI_SUM, comm, MPI_INFO_NULL, &request_);
  }
  ~Partitions() override { MPI_Request_free(&request_); }
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  double step(const PartWork& compute, const PartWork& use) override {
    MPI_Start(&request_);
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (int part = 0; part < gradient_.parts; ++part) {
      compute(part);
      MPI_Pready(part, request_);
    }
    const auto computed = partita::apps::Clock::now();
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int part = 0; part < gradient_.parts; ++part) {
      int arrived = 0;
      for (MPI_Parrived(request_, part, &arrived); arrived == 0; MPI_Parrived(request_, part, &arrived)) {
        std::this_thread::yield();
      }
      use(part);
    }
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    return partita::apps::seconds_since(computed);
  }

 private:
  Gradient gradient_;
  int threads_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

std::unique_ptr<Summing> sum_by_partitions(MPI_Comm comm, const Gradient& gradient, int threads) {
  return std::make_unique<Partitions>(comm, gradient, threads);
}

}  // namespace bce
