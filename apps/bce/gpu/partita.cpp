// Steps with a partitioned allreduce: kernels mark its parts and hosts walk its schedule, or kernels do it themselves.
#include <fmt/format.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <stdexcept>

#include "apps/bce/gpu/summing.hpp"
#include "apps/support/time_limit.hpp"

namespace bce::gpu {
namespace {

/// A partitioned allreduce of the gradient, and its device request.
class PartitionedAllreduce {
 public:
  /// Collective; blocks until all ranks have made theirs.
  PartitionedAllreduce(const Rank& rank, int partitions, const char* driver) {
    const Model& model = rank.model;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", driver);
    MPIX_Pallreduce_init(model.own, model.sum, partitions, model.features / partitions, MPI_DOUBLE, MPI_SUM, rank.comm,
                         info, &request_);
    MPI_Info_free(&info);
    MPIX_Prequest_create(&device_, request_);
    if (device_.limit_ns == 0) device_.limit_ns = partita::apps::wait_limit_ns();
  }
  ~PartitionedAllreduce() {
    MPIX_Prequest_free(&device_);
    MPI_Request_free(&request_);
  }
  PartitionedAllreduce(const PartitionedAllreduce&) = delete;
  PartitionedAllreduce& operator=(const PartitionedAllreduce&) = delete;

  MPI_Request& request() { return request_; }
  const MPIX_Prequest& device() const { return device_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPIX_Prequest device_{};
};

/// Where kernels leave the first PARTITA_DEVICE_ERR_*.
class Failure {
 public:
  int* word() const { return word_.data(); }
  /// When the kernels have ended.
  void look() const {
    int code = 0;
    PARTITA_APPS_CUDA(cudaMemcpy(&code, word_.data(), sizeof code, cudaMemcpyDeviceToHost));
    if (code == 0) return;
    throw std::runtime_error(
        fmt::format("bce: a call in a kernel returned {} (PARTITA_DEVICE_ERR_*, partita/device/prequest.h).", code));
  }

 private:
  partita::apps::DeviceMemory<int> word_{1};
};

/// A step as in gpu-initiated-partitioned-mpi, section VI-D.2.
class Schedule final : public Steps {
 public:
  explicit Schedule(const Rank& rank) : rank_(rank), allreduce_(rank, rank.model.parts, "host") {}

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
  PartitionedAllreduce allreduce_;
  Failure failure_;
  partita::apps::StreamEvent updated_;
};

class InKernels final : public Steps {
 public:
  InKernels(const Rank& rank, bool all_at_once)
      : rank_(rank), all_at_once_(all_at_once), allreduce_(rank, 1, "device") {}

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
  PartitionedAllreduce allreduce_;
  Failure failure_;
};

}  // namespace

std::unique_ptr<Steps> steps_by_schedule(const Rank& rank) {
  return std::make_unique<Schedule>(rank);
}

std::unique_ptr<Steps> steps_in_kernels(const Rank& rank, bool all_at_once) {
  return std::make_unique<InKernels>(rank, all_at_once);
}

}  // namespace bce::gpu
