// Kernels that mark partitions of collectives and await them, beside the library's kernels, which reduce on the same
// GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <string>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

enum class Kind { allreduce, allgather, bcast };
constexpr Kind kinds[] = {Kind::allreduce, Kind::allgather, Kind::bcast};
const char* name_of(Kind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "bcast"};
  return names[static_cast<int>(kind)];
}

/// Few enough blocks for other kernels to run beside them.
constexpr int partitions = 8, count = 3000, threads = 128;

/// One collective of ints, as a kernel sees it.
struct Seen {
  MPIX_Prequest prequest;
  Kind kind;
  int rank, ranks;
  int* sent;
  const int* received;
  bool marks, receives;
};

__host__ __device__ int value(int rank, int epoch, int partition, int element) {
  return 100000 * epoch + 20000 * rank + 1000 * partition + element;
}

__device__ bool is_right(const Seen& seen, int epoch, int p, int i) {
  const int at = p * count + i;
  if (seen.kind == Kind::bcast) return seen.received[at] == value(0, epoch, p, i);
  if (seen.kind == Kind::allgather) {
    for (int r = 0; r < seen.ranks; ++r) {
      if (seen.received[r * partitions * count + at] != value(r, epoch, p, i)) return false;
    }
    return true;
  }
  int sum = 0;
  for (int r = 0; r < seen.ranks; ++r) sum += value(r, epoch, p, i);
  return seen.received[at] == sum;
}

/// A block a partition: written, marked, and awaited if `awaits`.
__global__ void exchange(Seen seen, int epoch, bool awaits, Verdict* verdict) {
  const int p = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  if (seen.marks) {
    for (int i = thread; i < count; i += threads) seen.sent[p * count + i] = value(seen.rank, epoch, p, i);
    const int code = MPIX_Pready_block(p, seen.prequest);
    if (thread == 0) failed(code, verdict);
  }
  if (!awaits || !seen.receives) return;
  const int code = MPIX_Pwait_partition(p, seen.prequest);
  if (thread == 0) failed(code, verdict);
  for (int i = thread; i < count; i += threads) {
    if (!is_right(seen, epoch, p, i)) atomicAdd_system(&verdict->wrong_bytes, 1ULL);
  }
}

/// Behind the host's Wait: everything was told to kernels, too.
__global__ void look(Seen seen, int epoch, Verdict* verdict) {
  const int p = static_cast<int>(blockIdx.x);
  int flag = 0;
  if (failed(MPIX_Parrived(seen.prequest, p, &flag), verdict)) return;
  if (flag == 0) atomicAdd_system(&verdict->never_arrived, 1);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    if (!is_right(seen, epoch, p, i)) atomicAdd_system(&verdict->wrong_bytes, 1ULL);
  }
}

class CollectiveRequests : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { choose_gpu(); }
};

TEST_P(CollectiveRequests, are_marked_and_awaited_in_kernels_epoch_after_epoch) {
  const Kind kind = GetParam();
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(int)) * partitions * count;
  const GpuBuffer sent(bytes), received(bytes * ranks());
  auto* const in = reinterpret_cast<int*>(sent.data());
  auto* const out = reinterpret_cast<int*>(received.data());
  Partita_Request request = PARTITA_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (kind == Kind::allreduce) {
    code =
        Partita_Pallreduce_init(in, out, partitions, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  } else if (kind == Kind::allgather) {
    code = Partita_Pallgather_init(in, partitions, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request);
  } else {
    code = Partita_Pbcast_init(in, partitions, count, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  ASSERT_EQ(code, MPI_SUCCESS);
  Partita_Prequest prequest{};
  ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
  const bool is_bcast = kind == Kind::bcast;
  const Seen seen{
      prequest, kind, rank(), ranks(), in, is_bcast ? in : out, !is_bcast || rank() == 0, !is_bcast || rank() != 0};
  const SharedVerdict verdict;
  const Stream stream;
  // Kernels of two ranks that share a GPU hold each other up.
  const bool awaits = !gpus_are_shared();
  for (int epoch = 1; epoch <= 20 && !HasFailure(); ++epoch) {
    step("epoch " + std::to_string(epoch));
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    exchange<<<partitions, threads, 0, stream>>>(seen, epoch, awaits, verdict.get());
    CUDA_OK(cudaGetLastError());
    if (epoch % 2 == 0) CUDA_OK(cudaStreamSynchronize(stream));  // its host takes no steps meanwhile
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (seen.receives) look<<<partitions, threads, 0, stream>>>(seen, epoch, verdict.get());
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
  }
  EXPECT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveRequests, testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace partita::test
