// Datatypes with gaps whose partitions kernels mark and await, packed and unpacked by kernels of the library's. A ring.
// tests/contract's device_gaps does more on threads.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>

#include "gpu/gpu_requests.cuh"
#include "support/gapped_message.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

struct GapTally {
  int failed_calls;
  int wrong_ints;
};

/// A block a partition.
__global__ void write_and_mark(const __grid_constant__ MPIX_Prequest send, int* out, GappedMessage shape, int epoch,
                               int sender, GapTally* tally) {
  const int p = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int size = shape.ints_of_partition(shape.sent);
  for (int at = p * size + static_cast<int>(threadIdx.x); at < (p + 1) * size; at += static_cast<int>(blockDim.x))
    out[at] = GappedMessage::value(epoch, sender, at);
  if (MPIX_Pready_block(p, send) != 0 && threadIdx.x == 0) atomicAdd_system(&tally->failed_calls, 1);
}

/// Likewise.
__global__ void await_and_look(const __grid_constant__ MPIX_Prequest recv, const int* in, GappedMessage shape,
                               int epoch, int sender, GapTally* tally) {
  const int p = static_cast<int>(blockIdx.x);
  const int size = shape.ints_of_partition(shape.received);
  if (MPIX_Pwait_partition(p, recv) != 0) {
    if (threadIdx.x == 0) atomicAdd_system(&tally->failed_calls, 1);
    return;
  }
  for (int at = p * size + static_cast<int>(threadIdx.x); at < (p + 1) * size; at += static_cast<int>(blockDim.x)) {
    const int expected = shape.moves(at) ? GappedMessage::value(epoch, sender, at) : -epoch;
    if (in[at] != expected) atomicAdd_system(&tally->wrong_ints, 1);
  }
}

__global__ void fill(int* ints, int count, int number) {
  for (int at = static_cast<int>(threadIdx.x); at < count; at += static_cast<int>(blockDim.x)) ints[at] = number;
}

class GapKernels : public Ring {
 protected:
  void run(const GappedMessage& shape) {
    step(std::to_string(shape.sent) + " to " + std::to_string(shape.received) + " partitions");
    const int ints = shape.all_ints();
    GpuBuffer out(static_cast<std::int64_t>(sizeof(int)) * ints), in(static_cast<std::int64_t>(sizeof(int)) * ints);
    MPI_Datatype padded = shape.make_type();
    Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
    ASSERT_EQ(Partita_Psend_init(out.data(), shape.sent, shape.elements / shape.sent, padded, next(), 3, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &requests[0]),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Precv_init(in.data(), shape.received, shape.elements / shape.received, padded, previous(), 3,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]),
              MPI_SUCCESS);
    PMPI_Type_free(&padded);
    MPIX_Prequest send{}, recv{};
    ASSERT_EQ(Partita_Prequest_create(&send, requests[0]), MPI_SUCCESS);
    ASSERT_EQ(Partita_Prequest_create(&recv, requests[1]), MPI_SUCCESS);
    auto* const out_ints = reinterpret_cast<int*>(out.data());
    auto* const in_ints = reinterpret_cast<int*>(in.data());
    for (int epoch = 1; epoch <= 3; ++epoch) {
      fill<<<1, 256>>>(in_ints, ints, -epoch);
      CUDA_OK(cudaDeviceSynchronize());
      ASSERT_EQ(Partita_Startall(2, requests), MPI_SUCCESS);
      await_and_look<<<shape.received, 128, 0, receiving_>>>(recv, in_ints, shape, epoch, previous(), tally_);
      write_and_mark<<<shape.sent, 128, 0, sending_>>>(send, out_ints, shape, epoch, rank(), tally_);
      CUDA_OK(cudaGetLastError());
      ASSERT_EQ(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
      CUDA_OK(cudaStreamSynchronize(receiving_));
      CUDA_OK(cudaStreamSynchronize(sending_));
      EXPECT_EQ(tally_->failed_calls, 0) << "epoch " << epoch;
      EXPECT_EQ(tally_->wrong_ints, 0) << "epoch " << epoch;
    }
    for (Partita_Request& request : requests) EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    harness_barrier();  // requests before buffers, on both sides
  }
  void SetUp() override {
    Ring::SetUp();
    ASSERT_EQ(cudaMallocManaged(&tally_, sizeof *tally_), cudaSuccess);
    *tally_ = {};
  }
  void TearDown() override {
    cudaFree(tally_);
    Ring::TearDown();
  }

 private:
  Stream sending_;
  Stream receiving_;
  GapTally* tally_ = nullptr;
};

TEST_F(GapKernels, mark_and_await_what_others_pack) {
  for (const GappedMessage& shape : {GappedMessage{1, 8, 8, 16}, GappedMessage{3, 12, 4, 24},
                                     GappedMessage{400, 6, 9, 36}, GappedMessage{4096, 4, 16, 16}})
    run(shape);
}

}  // namespace
}  // namespace partita::test
