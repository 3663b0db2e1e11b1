// Steps with a partitioned allreduce: kernels mark its parts and hosts walk its schedule, or kernels do it themselves.
#include <mpi.h>
#include <partita/mpix.h>

#include "apps/bce/gpu/device_request.hpp"
#include "apps/bce/gpu/summing.hpp"

namespace bce::gpu {
namespace {

/// The init call of an allreduce of the gradient.
auto allreduce_of(const Rank& rank, int partitions) {
  return [&rank, partitions](MPI_Info info, MPI_Request* request) {
    const Model& model = rank.model;
    MPIX_Pallreduce_init(model.own, model.sum, partitions, model.features / partitions, MPI_DOUBLE, MPI_SUM, rank.comm,
                         info, request);
  };
}

/// A step as in gpu-initiated-partitioned-mpi, section VI-D.2.
class Schedule final : public Steps {
 public:
  explicit Schedule(const Rank& rank) : rank_(rank), allreduce_("host", allreduce_of(rank, rank.model.parts)) {}

  void take(int first, int count) override {
    const cudaStream_t stream = rank_.stream.get();
    for (int step = first; step < first + count; ++step) {
      launch_forward(rank_.model, step, stream);
      updated_.synchronise();  // an epoch may write the sums as soon as it is open
      MPI_Start(&allreduce_.request());
      MPIX_Pbuf_prepare(allreduce_.request());
      launch_backward(rank_.model, &allreduce_.device(), failure_.word(), stream);
      MPI_Wait(&allreduce_.request(), MPI_STATUS_IGNORE);
      launch_update(rank_.model, stream);
      updated_.record(rank_.stream);
    }
  }
  void look() const override { failure_.look(); }

 private:
  Rank rank_;
  DeviceRequest allreduce_;
  KernelFailure failure_;
  partita::apps::StreamEvent updated_;
};

class InKernels final : public Steps {
 public:
  InKernels(const Rank& rank, bool all_at_once)
      : rank_(rank), all_at_once_(all_at_once), allreduce_("device", allreduce_of(rank, 1)) {}

  void take(int first, int count) override {
    const int steps_each = all_at_once_ ? count : 1;
    for (int step = first; step < first + count; step += steps_each) {
      launch_steps(rank_.model, allreduce_.device(), step, steps_each, rank_.training_blocks, failure_.word(),
                   rank_.stream.get());
    }
  }
  void look() const override { failure_.look(); }

 private:
  Rank rank_;
  bool all_at_once_;
  DeviceRequest allreduce_;
  KernelFailure failure_;
};

}  // namespace

std::unique_ptr<Steps> steps_by_schedule(const Rank& rank) {
  return std::make_unique<Schedule>(rank);
}

std::unique_ptr<Steps> steps_in_kernels(const Rank& rank, bool all_at_once) {
  return std::make_unique<InKernels>(rank, all_at_once);
}

}  // namespace bce::gpu
