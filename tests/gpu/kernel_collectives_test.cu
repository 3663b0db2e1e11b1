// Collectives that kernels do, all blocks of a grid together: contents, in every epoch, while the hosts sleep.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>
#include <tuple>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

enum class Kind { allreduce, allgather, reduce_scatter, alltoall, bcast };
constexpr Kind kinds[] = {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall, Kind::bcast};
const char* name_of(Kind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};
  return names[static_cast<int>(kind)];
}

/// One collective of ints, as a kernel sees it.
struct Seen {
  MPIX_Prequest prequest;
  Kind kind;
  int rank, ranks, count;
  int* sent;
  const int* received;
};

/// Element `i` of what `from` has for `to`.
__host__ __device__ int value(int from, int to, int epoch, int i) {
  return 1000000 * (epoch % 1000) + 100000 * from + 10000 * to + i % 9973;
}

__device__ int wanted(const Seen& seen, int block, int epoch, int i) {
  switch (seen.kind) {
    case Kind::bcast:
      return value(0, 0, epoch, i);
    case Kind::allgather:
      return value(block, 0, epoch, i);
    case Kind::alltoall:
      return value(block, seen.rank, epoch, i);
    default:
      int sum = 0;
      for (int r = 0; r < seen.ranks; ++r) sum += value(r, seen.kind == Kind::allreduce ? 0 : seen.rank, epoch, i);
      return sum;
  }
}

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

using Way = std::tuple<Kind, const char*>;

class KernelCollectives : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { choose_gpu(); }

  static int init(Kind kind, int* in, int* out, int count, MPI_Info info, Partita_Request* request) {
    switch (kind) {
      case Kind::allreduce:
        return Partita_Pallreduce_init(in, out, 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, request);
      case Kind::allgather:
        return Partita_Pallgather_init(in, 1, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, info, request);
      case Kind::reduce_scatter:
        return Partita_Preduce_scatter_block_init(in, out, 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, request);
      case Kind::alltoall:
        return Partita_Palltoall_init(in, 1, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, info, request);
      default:
        return Partita_Pbcast_init(in, 1, count, MPI_INT, 0, MPI_COMM_WORLD, info, request);
    }
  }

  static void run_epochs(Way way, int count, unsigned blocks) {
    const auto [kind, algorithm] = way;
    step(std::string(name_of(kind)) + " in " + algorithm + " of " + std::to_string(count) + ", " +
         std::to_string(blocks) + " blocks");
    const auto bytes = static_cast<std::int64_t>(sizeof(int)) * count * ranks();
    const GpuBuffer sent(bytes), received(bytes);
    auto* const in = reinterpret_cast<int*>(sent.data());
    auto* const out = kind == Kind::bcast ? in : reinterpret_cast<int*>(received.data());
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    PMPI_Info_set(info, "partita_algorithm", algorithm);
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_EQ(init(kind, in, out, count, info, &request), MPI_SUCCESS);
    PMPI_Info_free(&info);
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

INSTANTIATE_TEST_SUITE_P(All, KernelCollectives,
                         testing::Combine(testing::ValuesIn(kinds), testing::Values("packets", "buffers")),
                         [](const testing::TestParamInfo<Way>& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_in_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace partita::test
