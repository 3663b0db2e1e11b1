// Collectives whose marks push: whoever waits reduces, the host's Wait, the blocks of a kernel, or nobody.
#define PARTITA_DEVICE_PUSHED_COLLECTIVES
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cuda/atomic>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int pushed_partitions = 24;
constexpr unsigned pushed_threads = 256;

enum class Waiter { host, kernel, nobody };
constexpr Waiter waiters[] = {Waiter::host, Waiter::kernel, Waiter::nobody};
const char* name_of(Waiter waiter) {
  constexpr const char* names[] = {"host", "kernel", "nobody"};
  return names[static_cast<int>(waiter)];
}

enum class Pushed { allreduce, allgather, reduce_scatter, alltoall, bcast };
constexpr Pushed all_pushed[] = {Pushed::allreduce, Pushed::allgather, Pushed::reduce_scatter, Pushed::alltoall,
                                 Pushed::bcast};
const char* name_of(Pushed kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};
  return names[static_cast<int>(kind)];
}
__host__ __device__ constexpr int root_of(int ranks) {
  return ranks / 2;
}
__host__ __device__ constexpr bool has_block_for_each(Pushed kind) {
  return kind == Pushed::reduce_scatter || kind == Pushed::alltoall;
}
__host__ __device__ constexpr bool has_block_of_each(Pushed kind) {
  return kind == Pushed::allgather || kind == Pushed::alltoall;
}

/// What `from` has for `to`, in its block's element i: numbers whose sum depends on the order in which they are added.
__host__ __device__ float pushed_value(int from, int to, int epoch, int i) {
  const unsigned mixed = static_cast<unsigned>(i) * 7919 + static_cast<unsigned>(from) * 104729 +
                         static_cast<unsigned>(to) * 1299709 + static_cast<unsigned>(epoch) * 31;
  return static_cast<float>(mixed % 10007) / static_cast<float>(3 + from + i % 5);
}

/// In the order of the ranks.
__device__ float pushed_sum(int ranks, int to, int epoch, int i) {
  float sum = pushed_value(0, to, epoch, i);
  for (int r = 1; r < ranks; ++r) sum += pushed_value(r, to, epoch, i);
  return sum;
}

/// So long a kernel looks for what is to come: less than the test has.
constexpr std::uint64_t longest_look_ns = 10'000'000'000;

struct PushedRun {
  MPIX_Prequest prequest;
  Pushed kind;
  int rank, ranks, count;  ///< elements of a partition in each block
  float* sent;
  const float* received;

  /// The root alone, of a bcast.
  __host__ __device__ bool may_mark() const { return kind != Pushed::bcast || rank == root_of(ranks); }
};

__device__ void fill_partition(const PushedRun& run, int epoch, int p, int lane, int lanes) {
  const int blocks = has_block_for_each(run.kind) ? run.ranks : 1;
  for (int to = 0; to < blocks; ++to) {
    float* const block = run.sent + to * pushed_partitions * run.count;
    for (int i = p * run.count + lane; i < (p + 1) * run.count; i += lanes) {
      block[i] = pushed_value(run.rank, to, epoch, i);
    }
  }
}

/// As fill_and_mark, which knows where a send's bytes lie; if this rank may mark.
__device__ void fill_and_push(const PushedRun& run, int epoch, Grain grain, Verdict* verdict) {
  if (!run.may_mark()) return;
  const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  switch (grain) {
    case Grain::thread:
    case Grain::plain:
      for (int p = thread; p < pushed_partitions; p += threads) {
        fill_partition(run, epoch, p, 0, 1);
        failed(grain == Grain::plain ? MPIX_Pready(p, run.prequest) : MPIX_Pready_thread(p, run.prequest), verdict);
      }
      break;
    case Grain::warp:
      for (int p = thread / 32; p < pushed_partitions; p += threads / 32) {
        fill_partition(run, epoch, p, thread % 32, 32);
        failed(MPIX_Pready_warp(p, run.prequest), verdict);
      }
      break;
    case Grain::block:
      for (int p = block; p < pushed_partitions; p += blocks) {
        fill_partition(run, epoch, p, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
        failed(MPIX_Pready_block(p, run.prequest), verdict);
      }
      break;
    case Grain::range:
      if (threadIdx.x == 0) {
        const int begin = pushed_partitions * block / blocks;
        const int end = pushed_partitions * (block + 1) / blocks;
        for (int p = begin; p < end; ++p) fill_partition(run, epoch, p, 0, 1);
        if (begin < end) failed(MPIX_Pready_range(begin, end - 1, run.prequest), verdict);
      }
      break;
  }
}

__device__ void look_at_results(const PushedRun& run, int epoch, Verdict* verdict) {
  const int all = pushed_partitions * run.count;
  const int to = has_block_for_each(run.kind) ? run.rank : 0;
  for (int block = 0; block < (has_block_of_each(run.kind) ? run.ranks : 1); ++block) {
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
      const float wanted = run.kind == Pushed::bcast     ? pushed_value(root_of(run.ranks), to, epoch, i)
                           : has_block_of_each(run.kind) ? pushed_value(block, to, epoch, i)
                                                         : pushed_sum(run.ranks, to, epoch, i);
      if (__float_as_uint(run.received[block * all + i]) != __float_as_uint(wanted)) {
        atomicAdd_system(&verdict->wrong_bytes, 4ULL);
      }
    }
  }
}

__global__ void __launch_bounds__(pushed_threads)
    mark_once(const __grid_constant__ PushedRun run, int epoch, Grain grain, bool waits, Verdict* verdict) {
  fill_and_push(run, epoch, grain, verdict);
  if (!waits) return;
  if (failed(MPIX_Pwait(run.prequest), verdict)) return;
  look_at_results(run, epoch, verdict);
}

__global__ void __launch_bounds__(pushed_threads)
    look_once(const __grid_constant__ PushedRun run, int epoch, Verdict* verdict) {
  look_at_results(run, epoch, verdict);
}

/// One block, which opens its epochs by itself.
__global__ void __launch_bounds__(pushed_threads)
    go_on_alone(const __grid_constant__ PushedRun run, int first, int epochs, Verdict* verdict) {
  for (int epoch = first; epoch < first + epochs; ++epoch) {
    if (failed(MPIX_Pstart(run.prequest), verdict)) return;
    if (failed(MPIX_Pbuf_prepare(run.prequest), verdict)) return;
    fill_and_push(run, epoch, Grain::block, verdict);
    // Some partitions by themselves, and then the others.
    if (failed(MPIX_Pwait_partition(epoch % pushed_partitions, run.prequest), verdict)) return;
    if (failed(MPIX_Pwait(run.prequest), verdict)) return;
    look_at_results(run, epoch, verdict);
    __syncthreads();
  }
}

/// Block 1 has old results in its cache when the epoch is over, of which it hears by its number alone; then it waits.
__global__ void __launch_bounds__(pushed_threads)
    wait_when_it_is_over(const __grid_constant__ PushedRun run, int epoch, float* sink, Verdict* verdict) {
  const ::cuda::atomic_ref<partita_u32, ::cuda::thread_scope_device> completed(run.prequest.state->completed);
  const partita_u32 before = completed.load(::cuda::std::memory_order_relaxed);
  __syncthreads();  // it cannot end before this block has marked
  float sum = 0;
  if (blockIdx.x == 1) {
    const int all = pushed_partitions * run.count;
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) sum += run.received[i];
  }
  sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  fill_and_push(run, epoch, Grain::block, verdict);
  if (blockIdx.x == 1) {
    const std::uint64_t since = device::now_ns();
    while (completed.load(::cuda::std::memory_order_relaxed) == before) {
      if (device::now_ns() - since < longest_look_ns) continue;
      verdict->never_arrived = 1;
      return;
    }
    __syncthreads();
  }
  if (failed(MPIX_Pwait(run.prequest), verdict)) return;
  look_at_results(run, epoch, verdict);
}

/// One block opens an epoch and marks it all.
__global__ void __launch_bounds__(pushed_threads)
    start_and_mark(const __grid_constant__ PushedRun run, int epoch, Verdict* verdict) {
  if (failed(MPIX_Pstart(run.prequest), verdict)) return;
  if (failed(MPIX_Pbuf_prepare(run.prequest), verdict)) return;
  fill_and_push(run, epoch, Grain::block, verdict);
}

/// One thread looks until all has arrived, while the library's kernels must run beside it.
__global__ void look_until_all_have_arrived(const __grid_constant__ PushedRun run, Verdict* verdict) {
  const std::uint64_t since = device::now_ns();
  for (int p = 0; p < pushed_partitions; ++p) {
    for (int flag = 0; flag == 0;) {
      if (failed(MPIX_Parrived(run.prequest, p, &flag), verdict)) return;
      if (flag != 0 || device::now_ns() - since < longest_look_ns) continue;
      verdict->never_arrived = pushed_partitions - p;
      return;
    }
  }
}

__global__ void __launch_bounds__(pushed_threads)
    wait_and_look(const __grid_constant__ PushedRun run, int epoch, Verdict* verdict) {
  if (failed(MPIX_Pwait(run.prequest), verdict)) return;
  look_at_results(run, epoch, verdict);
}

__global__ void __launch_bounds__(pushed_threads)
    mark_one(const __grid_constant__ PushedRun run, int epoch, int partition, Verdict* verdict) {
  fill_partition(run, epoch, partition, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  failed(MPIX_Pready_block(partition, run.prequest), verdict);
}

class PushedCollectives : public testing::Test {
 protected:
  void SetUp() override { choose_gpu(); }

  static int init(Pushed kind, const void* in, void* out, int count, MPI_Info info, Partita_Request* request) {
    constexpr int n = pushed_partitions;
    switch (kind) {
      case Pushed::allreduce:
        return Partita_Pallreduce_init(in, out, n, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info, request);
      case Pushed::allgather:
        return Partita_Pallgather_init(in, n, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD, info, request);
      case Pushed::reduce_scatter:
        return Partita_Preduce_scatter_block_init(in, out, n, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, info, request);
      case Pushed::alltoall:
        return Partita_Palltoall_init(in, n, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD, info, request);
      case Pushed::bcast:
        return Partita_Pbcast_init(out, n, count, MPI_FLOAT, root_of(ranks()), MPI_COMM_WORLD, info, request);
    }
    return MPI_ERR_OTHER;
  }

  /// Calls body(request, run) with a collective whose blocks have partitions of `count` floats.
  template <class Body>
  static void with_pushed(Pushed kind, int count, bool in_place, const Body& body) {
    const auto block = static_cast<std::int64_t>(sizeof(float)) * count * pushed_partitions;
    const GpuBuffer sent(block * ranks()), received(block * ranks());
    auto* const out = reinterpret_cast<float*>(received.data());
    auto* const own = kind == Pushed::allgather ? out + rank() * count * pushed_partitions : out;
    auto* const in = in_place || kind == Pushed::bcast ? own : reinterpret_cast<float*>(sent.data());
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    PMPI_Info_set(info, "partita_algorithm", "push");
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_EQ(init(kind, in_place ? MPI_IN_PLACE : static_cast<void*>(in), out, count, info, &request), MPI_SUCCESS);
    PMPI_Info_free(&info);
    PushedRun run{{}, kind, rank(), ranks(), count, in, out};
    ASSERT_EQ(Partita_Prequest_create(&run.prequest, request), MPI_SUCCESS);
    body(request, run);
    EXPECT_EQ(Partita_Prequest_free(&run.prequest), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    harness_barrier();
  }
  template <class Body>
  static void with_allreduce(int count, bool in_place, const Body& body) {
    with_pushed(Pushed::allreduce, count, in_place, body);
  }

  static void run_epoch(Partita_Request request, const PushedRun& run, int epoch, Grain grain, Waiter waiter) {
    const SharedVerdict verdict;
    const Stream stream;
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pbuf_prepare(request), MPI_SUCCESS);
    const unsigned blocks = rank() % 2 == 0 ? 8 : 5;
    mark_once<<<blocks, pushed_threads, 0, stream>>>(run, epoch, grain, waiter == Waiter::kernel, verdict.get());
    CUDA_OK(cudaGetLastError());
    if (waiter == Waiter::nobody) {
      CUDA_OK(cudaStreamSynchronize(stream));
      harness_barrier();
      for (int p = 0; p < pushed_partitions; ++p) {
        for (int flag = 0; flag == 0;) ASSERT_EQ(Partita_Parrived(request, p, &flag), MPI_SUCCESS);
      }
      look_once<<<1, pushed_threads, 0, stream>>>(run, epoch, verdict.get());
    }
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (waiter == Waiter::host) look_once<<<1, pushed_threads, 0, stream>>>(run, epoch, verdict.get());
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
  }
};

TEST_F(PushedCollectives, are_reduced_by_whoever_waits) {
  for (const Pushed kind : all_pushed) {
    const int epochs = kind == Pushed::allreduce ? 10 : 4;
    for (const bool in_place : {false, true}) {
      if (in_place && kind == Pushed::bcast) continue;  // it has one buffer
      for (const int count : {1, 1001, 60000}) {
        with_pushed(kind, count, in_place, [&](Partita_Request request, const PushedRun& run) {
          int epoch = 0;
          for (const Waiter waiter : waiters) {
            step(std::string(name_of(kind)) + ", " + name_of(waiter) + " waits for " + std::to_string(count));
            for (int i = 0; i < epochs; ++i) run_epoch(request, run, ++epoch, Grain::block, waiter);
          }
        });
      }
    }
  }
}

TEST_F(PushedCollectives, are_marked_at_every_grain) {
  for (const Pushed kind : all_pushed) {
    with_pushed(kind, 333, false, [&](Partita_Request request, const PushedRun& run) {
      int epoch = 0;
      for (const Grain grain : grains) {
        step(std::string(name_of(kind)) + ", " + name_of(grain));
        for (const Waiter waiter : waiters) run_epoch(request, run, ++epoch, grain, waiter);
      }
    });
  }
}

TEST_F(PushedCollectives, go_on_in_one_kernel_and_then_by_the_host) {
  for (const Pushed kind : all_pushed) {
    with_pushed(kind, 500, false, [&](Partita_Request request, const PushedRun& run) {
      constexpr int epochs = 50;
      for (int turn = 0; turn < 2; ++turn) {
        const SharedVerdict verdict;
        const Stream stream;
        const int first = turn * (epochs + 1) + 1;
        go_on_alone<<<1, pushed_threads, 0, stream>>>(run, first, epochs, verdict.get());
        CUDA_OK(cudaStreamSynchronize(stream));
        verdict.expect_good();
        run_epoch(request, run, first + epochs, Grain::block, Waiter::host);
      }
    });
  }
}

TEST_F(PushedCollectives, are_seen_by_a_block_that_waits_when_the_epoch_is_over) {
  with_allreduce(101, false, [&](Partita_Request request, const PushedRun& run) {
    const GpuBuffer sink(static_cast<std::int64_t>(2 * pushed_threads * sizeof(float)));
    for (int epoch = 1; epoch <= 200; ++epoch) {
      const SharedVerdict verdict;
      const Stream stream;
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      wait_when_it_is_over<<<2, pushed_threads, 0, stream>>>(run, epoch, reinterpret_cast<float*>(sink.data()),
                                                             verdict.get());
      CUDA_OK(cudaStreamSynchronize(stream));
      ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
      verdict.expect_good();
    }
  });
}

/// The next epoch's kernel is launched as soon as Wait has returned.
TEST_F(PushedCollectives, follow_one_another_without_a_look_at_the_stream) {
  const auto follow = [](Partita_Request request, const PushedRun& run) {
    const SharedVerdict verdict;
    constexpr int epochs = 3000;
    const Stream streams[2];
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(Partita_Pbuf_prepare(request), MPI_SUCCESS);
      mark_once<<<2, pushed_threads, 0, streams[epoch % 2]>>>(run, epoch, Grain::block, false, verdict.get());
      CUDA_OK(cudaGetLastError());
      ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    look_once<<<1, pushed_threads, 0, streams[0]>>>(run, epochs, verdict.get());
    CUDA_OK(cudaDeviceSynchronize());
    verdict.expect_good();
  };
  for (const Pushed kind : {Pushed::allreduce, Pushed::bcast}) with_pushed(kind, 3, false, follow);
}

/// Kernels end the host's epoch and the one behind it before the host looks.
TEST_F(PushedCollectives, are_complete_for_a_host_that_kernels_have_overtaken) {
  with_allreduce(50, false, [&](Partita_Request request, const PushedRun& run) {
    for (int epoch = 1; epoch <= 20; epoch += 2) {
      const SharedVerdict verdict;
      const Stream stream;
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      mark_once<<<1, pushed_threads, 0, stream>>>(run, epoch, Grain::block, true, verdict.get());
      go_on_alone<<<1, pushed_threads, 0, stream>>>(run, epoch + 1, 1, verdict.get());
      CUDA_OK(cudaStreamSynchronize(stream));
      ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
      verdict.expect_good();
    }
  });
}

/// The host has started nothing. Nobody makes anything on a GPU while kernels loop there.
TEST_F(PushedCollectives, of_kernels_arrive_where_nobody_waits) {
  for (const Pushed kind : all_pushed)
    with_pushed(kind, 1001, false, [&](Partita_Request, const PushedRun& run) {
      const SharedVerdict verdict;
      const Stream stream;
      harness_barrier();
      for (int epoch = 1; epoch <= 5 && !HasFailure(); ++epoch) {
        step("epoch " + std::to_string(epoch));
        start_and_mark<<<1, pushed_threads, 0, stream>>>(run, epoch, verdict.get());
        look_until_all_have_arrived<<<1, 1, 0, stream>>>(run, verdict.get());
        wait_and_look<<<1, pushed_threads, 0, stream>>>(run, epoch, verdict.get());
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaStreamSynchronize(stream));
        verdict.expect_good();
      }
    });
}

/// A kernel waits for all, and the first partitions are marked when the last ones have arrived.
TEST_F(PushedCollectives, arrive_though_a_kernel_that_waits_stands_at_others) {
  with_allreduce(1001, false, [&](Partita_Request request, const PushedRun& run) {
    const SharedVerdict verdict;
    const Stream waiting, marking;
    for (int epoch = 1; epoch <= 2; ++epoch) {
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      wait_and_look<<<1, pushed_threads, 0, waiting>>>(run, epoch, verdict.get());
      for (int p = pushed_partitions - 1; p >= 0; --p) {
        mark_one<<<1, pushed_threads, 0, marking>>>(run, epoch, p, verdict.get());
        CUDA_OK(cudaGetLastError());
        for (int flag = 0; flag == 0;) ASSERT_EQ(Partita_Parrived(request, p, &flag), MPI_SUCCESS);
      }
      ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
      CUDA_OK(cudaStreamSynchronize(waiting));
    }
    verdict.expect_good();
  });
}

/// Rank 0 marks when nothing runs on the GPU of the others any more, which have marked and tested.
TEST_F(PushedCollectives, leave_nothing_on_the_gpu_that_waits_for_other_ranks) {
  if (ranks() == 1) GTEST_SKIP() << "needs two ranks";
  with_allreduce(1001, false, [&](Partita_Request request, const PushedRun& run) {
    const SharedVerdict verdict;
    const Stream stream;
    const auto mark = [&] {
      mark_once<<<4, pushed_threads, 0, stream>>>(run, 1, Grain::block, false, verdict.get());
      CUDA_OK(cudaStreamSynchronize(stream));
    };
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    if (rank() != 0) {
      mark();
      for (int i = 0; i < 2000; ++i) {
        int flag = 0;
        ASSERT_EQ(Partita_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
        EXPECT_EQ(flag, 0);
      }
      CUDA_OK(cudaDeviceSynchronize());
    }
    harness_barrier();
    if (rank() == 0) mark();
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    look_once<<<1, pushed_threads, 0, stream>>>(run, 1, verdict.get());
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
  });
}

// ---- A bcast -------------------------------------------------------------------------------------------------------

/// One block: epoch after epoch, where other ranks come late now and then, and what came is read at leisure.
__global__ void __launch_bounds__(pushed_threads)
    go_on_with_pauses(const __grid_constant__ PushedRun run, int first, int epochs, Verdict* verdict) {
  for (int epoch = first; epoch < first + epochs; ++epoch) {
    if (failed(MPIX_Pstart(run.prequest), verdict)) return;
    if (failed(MPIX_Pbuf_prepare(run.prequest), verdict)) return;
    fill_and_push(run, epoch, Grain::block, verdict);
    if (failed(MPIX_Pwait(run.prequest), verdict)) return;
    const std::uint64_t since = device::now_ns();
    while ((epoch + run.rank) % 7 == 0 && device::now_ns() - since < 20'000) continue;
    look_at_results(run, epoch, verdict);
    __syncthreads();
  }
}

TEST_F(PushedCollectives, of_a_root_never_overwrite_what_is_being_read) {
  with_pushed(Pushed::bcast, 2001, false, [&](Partita_Request, const PushedRun& run) {
    const SharedVerdict verdict;
    const Stream stream;
    go_on_with_pauses<<<1, pushed_threads, 0, stream>>>(run, 1, 2000, verdict.get());
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(stream));
    verdict.expect_good();
  });
}

/// A kernel starts epochs on some ranks, and the host on others; so the root hears of them by both words.
TEST_F(PushedCollectives, of_a_root_begin_when_hosts_and_kernels_have_started) {
  with_pushed(Pushed::bcast, 301, false, [&](Partita_Request request, const PushedRun& run) {
    const SharedVerdict verdict;
    const Stream stream;
    for (int epoch = 1; epoch <= 40; ++epoch) {
      step("epoch " + std::to_string(epoch));
      if ((epoch / (1 + rank())) % 2 == 0) {
        go_on_alone<<<1, pushed_threads, 0, stream>>>(run, epoch, 1, verdict.get());
        CUDA_OK(cudaStreamSynchronize(stream));
      } else {
        run_epoch(request, run, epoch, Grain::block, waiters[epoch / 2 % 2]);
      }
    }
    verdict.expect_good();
  });
}

/// Only the root has a device request of the program's.
TEST_F(PushedCollectives, of_a_root_need_no_device_request_elsewhere) {
  const int count = 5000, n = pushed_partitions;
  const GpuBuffer buffer(static_cast<std::int64_t>(sizeof(float)) * count * n);
  auto* const data = reinterpret_cast<float*>(buffer.data());
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  PMPI_Info_set(info, "partita_algorithm", "push");
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(init(Pushed::bcast, data, data, count, info, &request), MPI_SUCCESS);
  PMPI_Info_free(&info);
  PushedRun run{{}, Pushed::bcast, rank(), ranks(), count, data, data};
  const SharedVerdict verdict;
  const Stream stream;
  if (run.may_mark()) ASSERT_EQ(Partita_Prequest_create(&run.prequest, request), MPI_SUCCESS);
  for (int epoch = 1; epoch <= 20; ++epoch) {
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    if (run.may_mark()) {
      ASSERT_EQ(Partita_Pbuf_prepare(request), MPI_SUCCESS);
      mark_once<<<4, pushed_threads, 0, stream>>>(run, epoch, Grain::block, false, verdict.get());
      CUDA_OK(cudaGetLastError());
    }
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    look_once<<<1, pushed_threads, 0, stream>>>(run, epoch, verdict.get());
    CUDA_OK(cudaStreamSynchronize(stream));
  }
  verdict.expect_good();
  if (run.may_mark()) EXPECT_EQ(Partita_Prequest_free(&run.prequest), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
