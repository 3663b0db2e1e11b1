// Collectives that kernels do, all blocks of a grid together: contents, in every epoch, while the hosts sleep.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>
#include <tuple>

#include "gpu/collective_values.cuh"
#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"
#include "support/kernel_ways.hpp"

namespace partita::test {
namespace {

__device__ int call(const Seen& seen) {
  switch (seen.kind) {
    case Kind::allreduce:
      return MPIX_Pallreduce(seen.prequest);
    case Kind::allgather:
      return MPIX_Pallgather(seen.prequest);
    case Kind::reduce_scatter:
      return MPIX_Preduce_scatter(seen.prequest);
    case Kind::alltoall:
      return MPIX_Palltoall(seen.prequest);
    default:
      return MPIX_Pbcast(seen.prequest);
  }
}

/// Every thread writes elements that other blocks send, and looks at elements that other blocks have received.
__global__ void __launch_bounds__(256) run(const __grid_constant__ Seen seen, int epochs, Verdict* verdict) {
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  const bool scatters = seen.kind == Kind::reduce_scatter || seen.kind == Kind::alltoall;
  const bool gathers = seen.kind == Kind::allgather || seen.kind == Kind::alltoall;
  const bool sends = seen.kind != Kind::bcast || seen.rank == 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (int i = thread; sends && i < seen.count * (scatters ? seen.ranks : 1); i += threads) {
      seen.sent[i] = value(seen.rank, i / seen.count, epoch, i % seen.count);
    }
    const int code = call(seen);
    if (code != PARTITA_DEVICE_SUCCESS) {
      if (threadIdx.x == 0) failed(code, verdict);
      return;
    }
    for (int n = thread; n < seen.count * (gathers ? seen.ranks : 1); n += threads) {
      const int i = seen.count * (gathers ? seen.ranks : 1) - 1 - n;
      if (seen.received[i] != wanted(seen, i / seen.count, epoch, i % seen.count)) {
        atomicAdd_system(&verdict->wrong_bytes, 4ULL);
      }
    }
    cooperative_groups::this_grid().sync();  // in a bcast the root writes where others still look
  }
}

using Way = KernelWay<Kind>;

class KernelCollectives : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { choose_gpu(); }

  static void run_epochs(Way way, int count, unsigned blocks) {
    const auto [kind, algorithm] = way;
    step(std::string(name_of(kind)) + " in " + algorithm + " of " + std::to_string(count) + ", " +
         std::to_string(blocks) + " blocks");
    const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count * ranks();
    const GpuBuffer sent(bytes), received(bytes);
    auto* const in = reinterpret_cast<int*>(sent.data());
    auto* const out = kind == Kind::bcast ? in : reinterpret_cast<int*>(received.data());
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_EQ(init_device_driven(kind, in, out, count, algorithm, &request), MPI_SUCCESS);
    Partita_Prequest prequest{};
    ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
    Seen seen{prequest, kind, rank(), ranks(), count, in, out};
    const SharedVerdict verdict;
    const Stream stream;
    int epochs = 50;
    Verdict* found = verdict.get();
    void* arguments[] = {&seen, &epochs, &found};
    CUDA_OK(
        cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(run), dim3(blocks), dim3(256), arguments, 0, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
    EXPECT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    harness_barrier();
  }
};

TEST_P(KernelCollectives, are_done_by_grids_of_any_size_while_the_hosts_sleep) {
  for (const int count : {1, 1000, 50001, 200000}) {
    run_epochs(GetParam(), count, 1);
    run_epochs(GetParam(), count, rank() % 2 == 0 ? 5 : 8);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectives, testing::ValuesIn(kernel_ways(kinds)), name_of_way<Kind>);

}  // namespace
}  // namespace partita::test
