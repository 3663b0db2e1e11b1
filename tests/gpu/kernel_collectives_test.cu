// Collectives that kernels do, all blocks of a grid together: contents, in every epoch, while the hosts sleep.
#include <cooperative_groups.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <deque>
#include <string>
#include <tuple>
#include <vector>

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

/// By chance, and the same on all ranks.
__device__ unsigned mixed(unsigned n) {
  n = (n ^ 0x9e3779b9U) * 0x85ebca6bU;
  n = (n ^ n >> 13) * 0xc2b2ae35U;
  return n ^ n >> 16;
}

/// One block does collective after collective, each of another kind and size. A rank comes late now and then.
__global__ void __launch_bounds__(256) alternate(const Seen* all, unsigned collectives, int epochs, Verdict* verdict) {
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Seen& seen = all[mixed(static_cast<unsigned>(epoch)) % collectives];
    const bool scatters = seen.kind == Kind::reduce_scatter || seen.kind == Kind::alltoall;
    const bool gathers = seen.kind == Kind::allgather || seen.kind == Kind::alltoall;
    const int threads = static_cast<int>(blockDim.x);
    const int thread = static_cast<int>(threadIdx.x);
    if (seen.kind != Kind::bcast || seen.rank == 0) {
      for (int i = thread; i < seen.count * (scatters ? seen.ranks : 1); i += threads) {
        seen.sent[i] = value(seen.rank, i / seen.count, epoch, i % seen.count);
      }
    }
    constexpr unsigned most_delay_ns = 20000;
    if (thread == 0 && seen.rank == epoch / 7 % seen.ranks)
      chance_delay(mixed(static_cast<unsigned>(epoch)), most_delay_ns);
    if (failed(call(seen), verdict)) return;
    for (int i = thread; i < seen.count * (gathers ? seen.ranks : 1); i += threads) {
      if (seen.received[i] != wanted(seen, i / seen.count, epoch, i % seen.count)) {
        atomicAdd_system(&verdict->wrong_bytes, 4ULL);
      }
    }
    __syncthreads();  // in a bcast the root writes where others still look
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
    int epochs = static_cast<int>(environment_number("PARTITEST_ROUNDS", 50));
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

/// A request, and what it moves.
class Alternating {
 public:
  Alternating(Way way, int count)
      : kind_(std::get<0>(way)),
        count_(count),
        sent_(static_cast<std::int64_t>(sizeof(int)) * count * ranks()),
        received_(static_cast<std::int64_t>(sizeof(int)) * count * ranks()) {
    EXPECT_EQ(init_device_driven(kind_, in(), out(), count, std::get<1>(way), &request_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_create(&prequest_, request_), MPI_SUCCESS);
  }
  ~Alternating() {
    EXPECT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&prequest_), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&request_), MPI_SUCCESS);
  }
  Alternating(const Alternating&) = delete;
  Alternating& operator=(const Alternating&) = delete;

  Seen seen() const { return {prequest_, kind_, rank(), ranks(), count_, in(), out()}; }

 private:
  int* in() const { return reinterpret_cast<int*>(sent_.data()); }
  int* out() const { return kind_ == Kind::bcast ? in() : reinterpret_cast<int*>(received_.data()); }

  const Kind kind_;
  const int count_;
  const GpuBuffer sent_, received_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  Partita_Prequest prequest_{};
};

/// PARTITEST_EPOCHS of them.
TEST(KernelCollectiveSeries, alternates_sizes_and_collectives_in_one_kernel) {
  choose_gpu();
  std::deque<Alternating> requests;
  for (const Way& way : kernel_ways(kinds)) {
    for (const int count : {1, 300}) requests.emplace_back(way, count);
  }
  std::vector<Seen> all;
  for (const Alternating& each : requests) all.push_back(each.seen());
  const GpuBuffer on_gpu(static_cast<std::int64_t>(all.size() * sizeof(Seen)));
  CUDA_OK(cudaMemcpy(on_gpu.data(), all.data(), all.size() * sizeof(Seen), cudaMemcpyHostToDevice));
  const SharedVerdict verdict;
  const Stream stream;
  alternate<<<1, 256, 0, stream>>>(reinterpret_cast<const Seen*>(on_gpu.data()), static_cast<unsigned>(all.size()),
                                   static_cast<int>(environment_number("PARTITEST_EPOCHS", 100000)), verdict.get());
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaStreamSynchronize(stream));
  verdict.expect_good();
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectives, testing::ValuesIn(kernel_ways(kinds)), name_of_way<Kind>);

}  // namespace
}  // namespace partita::test
