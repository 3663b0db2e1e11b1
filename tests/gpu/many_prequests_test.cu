// Many device requests alive at once, made, started, completed and freed in any order. A ring.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

struct OneOfMany {
  MPIX_Prequest send;
  MPIX_Prequest recv;
  unsigned char* out;
  const unsigned char* in;
  std::int64_t partition_bytes;
  int partitions;
};

struct Tally {
  int failed_calls = 0;
  unsigned long long wrong_bytes = 0;
};

/// The bytes differ between requests too.
__host__ __device__ std::uint64_t key_of(std::uint64_t round, int request) {
  return round * 1000 + static_cast<std::uint64_t>(request);
}

__device__ void write(const OneOfMany& one, int p, std::uint64_t key) {
  for (std::int64_t i = p * one.partition_bytes + threadIdx.x; i < (p + 1) * one.partition_bytes; i += blockDim.x) {
    one.out[i] = byte_at(key, i);
  }
}

/// Block b marks all partitions of request b.
__global__ void mark_all(const OneOfMany* all, std::uint64_t round, Tally* tally) {
  const OneOfMany one = all[blockIdx.x];
  for (int p = one.partitions - 1; p >= 0; --p) {
    write(one, p, key_of(round, static_cast<int>(blockIdx.x)));
    if (MPIX_Pready_block(p, one.send) != 0 && threadIdx.x == 0) atomicAdd(&tally->failed_calls, 1);
  }
}

/// Block b runs the epochs of request b, device-driven.
__global__ void exchange_all(const OneOfMany* all, int rounds, Tally* tally) {
  const OneOfMany one = all[blockIdx.x];
  const std::int64_t bytes = one.partition_bytes * one.partitions;
  unsigned long long wrong = 0;
  int code = 0;
  for (int round = 1; round <= rounds && code == 0; ++round) {
    const std::uint64_t key = key_of(static_cast<std::uint64_t>(round), static_cast<int>(blockIdx.x));
    code = MPIX_Pstart(one.recv);
    if (code == 0) code = MPIX_Pstart(one.send);
    for (int p = 0; p < one.partitions; ++p) write(one, p, key);
    if (code == 0) code = MPIX_Pbuf_prepare(one.send);
    for (int p = 0; p < one.partitions && code == 0; ++p) code = MPIX_Pready_block(p, one.send);
    if (code == 0) code = MPIX_Pwait(one.send);
    if (code == 0) code = MPIX_Pwait(one.recv);
    for (std::int64_t i = threadIdx.x; i < bytes; i += blockDim.x) wrong += one.in[i] != byte_at(key, i);
  }
  if (wrong != 0) atomicAdd(&tally->wrong_bytes, wrong);
  if (code != 0 && threadIdx.x == 0) atomicAdd(&tally->failed_calls, 1);
}

struct Flow {
  std::unique_ptr<GpuBuffer> out;
  std::unique_ptr<GpuBuffer> in;
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request recv = PARTITA_REQUEST_NULL;
  Partita_Prequest device_send{};
  Partita_Prequest device_recv{};
  std::int64_t partition_bytes = 0;
  int partitions = 0;
};

class ManyPrequests : public Ring {
 protected:
  /// `count` requests each way, the sends made in the opposite order, the device requests in any.
  void make(std::vector<Flow>& flows, int count, const std::string& driver, Random& random) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", driver.c_str());
    flows.resize(static_cast<std::size_t>(count));
    for (Flow& flow : flows) {
      flow.partitions = random.of(std::vector<int>{1, 2, 7, 33});
      flow.partition_bytes = random.of(std::vector<std::int64_t>{8, 24, 100, 1000, 4096});
      flow.out = std::make_unique<GpuBuffer>(flow.partitions * flow.partition_bytes);
      flow.in = std::make_unique<GpuBuffer>(flow.out->size_bytes());
    }
    for (int i = 0; i < count; ++i) {
      Flow& flow = flows[static_cast<std::size_t>(i)];
      ASSERT_EQ(Partita_Precv_init(flow.in->data(), flow.partitions, flow.partition_bytes, MPI_BYTE, previous(), i,
                                   MPI_COMM_WORLD, info, &flow.recv),
                MPI_SUCCESS);
    }
    for (int i = count - 1; i >= 0; --i) {
      Flow& flow = flows[static_cast<std::size_t>(i)];
      ASSERT_EQ(Partita_Psend_init(flow.out->data(), flow.partitions, flow.partition_bytes, MPI_BYTE, next(), i,
                                   MPI_COMM_WORLD, info, &flow.send),
                MPI_SUCCESS);
    }
    for (const int i : random.permutation(count)) {
      Flow& flow = flows[static_cast<std::size_t>(i)];
      ASSERT_EQ(Partita_Prequest_create(&flow.device_send, flow.send), MPI_SUCCESS);
      ASSERT_EQ(Partita_Prequest_create(&flow.device_recv, flow.recv), MPI_SUCCESS);
    }
    PMPI_Info_free(&info);
    const bool by_kernels = kernels_reach(rank(), next());
    for (const Flow& flow : flows) {
      const bool small = fits_packets(flow.partitions, flow.partitions, flow.out->size_bytes());
      ASSERT_TRUE(goes(flow.send, by_kernels, driver == "device" && small));
    }
  }

  /// In any order, some with their device request alive, some after it.
  void free(std::vector<Flow>& flows, Random& random) {
    const int count = static_cast<int>(flows.size());
    for (const int i : random.permutation(2 * count)) {
      Flow& flow = flows[static_cast<std::size_t>(i % count)];
      Partita_Request& request = i < count ? flow.send : flow.recv;
      Partita_Prequest& device = i < count ? flow.device_send : flow.device_recv;
      if (random.one_in(2)) ASSERT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
      ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    }
    harness_barrier();  // requests before buffers, on both sides
  }

  /// The flows as kernels use them, in managed memory.
  OneOfMany* for_kernels(const std::vector<Flow>& flows) {
    OneOfMany* all = nullptr;
    EXPECT_EQ(cudaMallocManaged(&all, sizeof(OneOfMany) * flows.size()), cudaSuccess);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const Flow& flow = flows[i];
      all[i] = {flow.device_send, flow.device_recv,     flow.out->data(),
                flow.in->data(),  flow.partition_bytes, flow.partitions};
    }
    return all;
  }

  void expect_no_failure() {
    EXPECT_EQ(tally_->failed_calls, 0);
    EXPECT_EQ(tally_->wrong_bytes, 0u);
  }

  Managed<Tally> tally_;
};

TEST_F(ManyPrequests, a_hundred_each_way_live_at_once_and_go_in_any_order) {
  constexpr int count = 100;
  Random random(job_seed());
  for (int generation = 0; generation < 2; ++generation) {  // the second one in memory of the first
    SCOPED_TRACE("generation " + std::to_string(generation));
    step("making generation " + std::to_string(generation));
    std::vector<Flow> flows;
    make(flows, count, "host", random);
    ASSERT_FALSE(HasFatalFailure());
    OneOfMany* all = for_kernels(flows);
    Stream stream;
    for (std::uint64_t round = 1; round <= 5; ++round) {
      step("round " + std::to_string(round));
      std::vector<Partita_Request> requests;
      for (const int i : random.permutation(count)) {
        Flow& flow = flows[static_cast<std::size_t>(i)];
        ASSERT_EQ(Partita_Start(&flow.recv), MPI_SUCCESS);
        ASSERT_EQ(Partita_Start(&flow.send), MPI_SUCCESS);
        requests.insert(requests.end(), {flow.send, flow.recv});
      }
      random.shuffle(requests);
      mark_all<<<count, 64, 0, stream>>>(all, round, tally_.get());
      CUDA_OK(cudaGetLastError());
      ASSERT_EQ(Partita_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE), MPI_SUCCESS);
      for (int i = 0; i < count; ++i) {
        const Flow& flow = flows[static_cast<std::size_t>(i)];
        ASSERT_TRUE(flow.in->holds(key_of(round, i), 0, flow.in->size_bytes())) << "request " << i;
      }
      CUDA_OK(cudaStreamSynchronize(stream));
      expect_no_failure();
    }
    free(flows, random);
    CUDA_OK(cudaFree(all));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(ManyPrequests, sixty_device_driven_pairs_run_in_one_kernel) {
  if (gpus_are_shared()) GTEST_SKIP() << "kernels of two ranks that share a GPU hold each other up";
  constexpr int count = 60;  // blocks that are resident together on any GPU
  constexpr int rounds = 200;
  Random random(job_seed());
  std::vector<Flow> flows;
  make(flows, count, "device", random);
  ASSERT_FALSE(HasFatalFailure());
  OneOfMany* all = for_kernels(flows);
  Stream stream;
  harness_barrier();
  exchange_all<<<count, 64, 0, stream>>>(all, rounds, tally_.get());
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaStreamSynchronize(stream));
  expect_no_failure();
  for (int i = 0; i < count; ++i) {
    const Flow& flow = flows[static_cast<std::size_t>(i)];
    EXPECT_TRUE(flow.in->holds(key_of(rounds, i), 0, flow.in->size_bytes())) << "request " << i;
  }
  free(flows, random);
  CUDA_OK(cudaFree(all));
}

}  // namespace
}  // namespace partita::test
