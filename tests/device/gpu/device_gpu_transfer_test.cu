// Whole epochs between two kernels, or between a kernel and a host: every granularity, driver and way, contents
// compared at the moment at which they are said to have arrived, with random delays (message-passing litmus tests on
// real memory).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "gpu_marking.cuh"
#include "gpu_pair.cuh"

namespace partita::test {
namespace {

/// A device-driven send: the whole run in one launch.
__global__ void __launch_bounds__(1024) send_epochs(MPIX_Prequest send, Work work) {
  std::uint32_t turn = 0;
  Epoch epoch = work.before;
  for (int e = 0; e < work.epochs; ++e) {
    epoch = next(epoch);
    if (blockIdx.x == 0) {
      failed(MPIX_Pstart(send), work.findings);
      failed(MPIX_Pbuf_prepare(send), work.findings);
    }
    if (!grid_barrier(work.grid_word, &turn, work.findings)) return;
    mark_share(send, work, epoch);
    if (blockIdx.x == 0) failed(MPIX_Pwait(send), work.findings);
    if (!grid_barrier(work.grid_word, &turn, work.findings)) return;
    if (e % 64 == 63 && work.findings->wrong_codes != 0) return;  // a word of host memory
  }
}

__device__ void compare(const Partita_Prequest& recv, std::int64_t begin, std::int64_t end, std::int64_t step,
                        Epoch epoch, Findings* findings) {
  std::uint32_t wrong = 0;
  for (std::int64_t i = begin; i < end; i += step) {
    if (*static_cast<volatile unsigned char*>(recv.buffer + i) != expected_byte(epoch, i)) ++wrong;
  }
  if (wrong != 0) atomicAdd_system(&findings->wrong_bytes, wrong);
}

/// Asks for this thread's partitions until they are there, and compares each at once.
__device__ void await_own_partitions(const Partita_Prequest& recv, int asked, Epoch epoch, Findings* findings) {
  const std::int64_t bytes = recv.total_bytes / recv.recv_partitions;
  const std::uint64_t since = device::now_ns();
  for (int p = threadIdx.x; p < asked; p += blockDim.x) {
    int flag = 0;
    while (flag == 0) {
      if (failed(MPIX_Parrived(recv, p, &flag), findings)) return;
      if (flag == 0 && device::now_ns() - since > spin_limit_ns) {
        atomicAdd_system(&findings->late, 1U);
        return;
      }
    }
    compare(recv, p * bytes, (p + 1) * bytes, 1, epoch, findings);
  }
}

/// A device-driven receive: one block, the whole run in one launch.
__global__ void __launch_bounds__(1024) recv_epochs(MPIX_Prequest recv, Work work) {
  Epoch epoch = work.before;
  for (int e = 0; e < work.epochs; ++e) {
    epoch = next(epoch);
    random_delay(epoch * 31, work.most_delay_ns * 4);
    if (failed(MPIX_Pstart(recv), work.findings)) return;
    failed(MPIX_Pbuf_prepare(recv), work.findings);
    // All partitions one by one, half of them, or none.
    const int asked = e % 3 == 0 ? recv.recv_partitions : e % 3 == 1 ? recv.recv_partitions / 2 : 0;
    await_own_partitions(recv, asked, epoch, work.findings);
    __syncthreads();
    if (failed(MPIX_Pwait(recv), work.findings)) return;
    compare(recv, threadIdx.x, recv.total_bytes, blockDim.x, epoch, work.findings);
    __syncthreads();
  }
}

/// A host-driven receive asked from a kernel.
__global__ void __launch_bounds__(1024) recv_one_epoch(MPIX_Prequest recv, Work work, Epoch epoch) {
  await_own_partitions(recv, recv.recv_partitions, epoch, work.findings);
}

struct Launch {
  int send_blocks;
  int threads;
  Granularity granularity;
  int epochs;
  std::uint32_t most_delay_ns;
};

/// The host's part: starts, moves what was handed over, waits for the words and compares what has arrived.
void run(const PairShape& shape, Launch launch) {
  if (const char* const epochs = std::getenv("PARTITEST_EPOCHS")) launch.epochs = std::atoi(epochs);
  const std::string where = shape.text() + ", granularity " + name_of(launch.granularity);
  SCOPED_TRACE(where);
  GpuPair pair(shape);
  SharedFindings findings;
  Work work{launch.granularity, shape.before, launch.epochs, launch.most_delay_ns, nullptr, findings.get()};
  work.grid_word = reinterpret_cast<std::uint32_t*>(pair.allocate(Spot::sender_gpu, 4));
  GpuStream sending(pair.sender());
  GpuStream receiving(pair.receiver());
  const dim3 grid(static_cast<unsigned>(launch.send_blocks));
  const dim3 block(static_cast<unsigned>(launch.threads));

  if (shape.recv_device_driven) recv_epochs<<<1, block, 0, receiving.use()>>>(pair.recv(), work);
  if (shape.send_device_driven) send_epochs<<<grid, block, 0, sending.use()>>>(pair.send(), work);
  CHECK_CUDA(cudaGetLastError());

  std::vector<unsigned char> seen(static_cast<std::size_t>(shape.total_bytes));
  const auto since = std::chrono::steady_clock::now();
  const auto in_time = [&] { return std::chrono::steady_clock::now() - since < std::chrono::seconds(30); };
  Epoch epoch = shape.before;
  const bool host_acts = !shape.send_device_driven || !shape.recv_device_driven;
  for (int e = 0; e < launch.epochs && host_acts; ++e) {
    epoch = next(epoch);
    // Readiness before the marks, among them, or after.
    const int moment = e % 3;
    if (!shape.recv_device_driven && moment == 0) pair.start_recv(epoch);
    if (!shape.send_device_driven) {
      pair.start_send(epoch);
      send_one_epoch<<<grid, block, 0, sending.use()>>>(pair.send(), work, epoch);
    }
    if (!shape.recv_device_driven) {
      if (moment == 1) {
        const auto then = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - then < std::chrono::microseconds(e % 23)) continue;
        pair.start_recv(epoch);
      } else if (moment == 2) {
        const auto then = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - then < std::chrono::microseconds(60)) continue;
        pair.start_recv(epoch);
      }
      if (e % 4 == 0) recv_one_epoch<<<1, block, 0, receiving.use()>>>(pair.recv(), work, epoch);
    }
    CHECK_CUDA(cudaGetLastError());

    bool decided = shape.send_device_driven;
    while (in_time()) {
      // In this order: what was decided when it was looked at is handed over or moved already.
      if (!shape.send_device_driven) decided = pair.send_is_decided(epoch);
      pair.progress(epoch);
      bool moved = decided;
      for (int t = 0; t < shape.transport_partitions && !shape.send_device_driven; ++t) {
        moved = moved && (!pair.handed_over(t, epoch) || pair.was_moved(t, epoch));
      }
      if (moved && (shape.recv_device_driven || pair.all_arrived(epoch))) break;
    }
    if (!in_time()) {
      ADD_FAILURE() << where << ": epoch " << epoch << " did not end";
      pair.release_kernels();
      break;
    }
    if (!shape.recv_device_driven) {
      pair.copy(seen.data(), pair.recv_buffer(), seen.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < seen.size(); ++i) {
        wrong += seen[i] != DevicePair::expected(epoch, static_cast<std::int64_t>(i));
      }
      ASSERT_EQ(wrong, 0U) << where << ", epoch " << epoch;
      receiving.wait();
    }
    if (!shape.send_device_driven) sending.wait();
  }
  while (in_time() && !(sending.idle() && receiving.idle())) std::this_thread::yield();
  if (!in_time()) pair.release_kernels();
  sending.wait();
  receiving.wait();
  EXPECT_TRUE(in_time()) << where;
  findings.expect_none(where);
  EXPECT_EQ(pair.failure(pair.send()), 0U) << where;
  EXPECT_EQ(pair.failure(pair.recv()), 0U) << where;
}

PairShape shape_of(int send_partitions, int recv_partitions, int transport_partitions, std::int64_t total_bytes) {
  PairShape shape;
  shape.send_partitions = send_partitions;
  shape.recv_partitions = recv_partitions;
  shape.transport_partitions = transport_partitions;
  shape.total_bytes = total_bytes;
  shape.limit_ns = 10'000'000'000;
  return shape;
}

/// Partition counts and sizes that differ in kind: one partition, neighbours in a warp, several blocks to a transfer,
/// receive partitions across several transfers, odd bytes.
std::vector<PairShape> shapes(bool packets) {
  std::vector<PairShape> all = {
      shape_of(1, 1, 1, 1024),        shape_of(64, 1, 1, 64 * 8),  shape_of(64, 48, 16, 192 * 8),
      shape_of(48, 64, 48, 192 * 16), shape_of(8, 8, 4, 8 * 4096), shape_of(96, 96, 7, 96 * 128),
  };
  if (!packets) {
    all.push_back(shape_of(30, 42, 11, 210 * 3));
    all.push_back(shape_of(8, 4, 8, 8 * 40000));
    PairShape odd = shape_of(12, 12, 5, 12 * 1031);
    odd.misaligned_send_bytes = 5;
    odd.misaligned_recv_bytes = 11;
    all.push_back(odd);
  }
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].before = 0xffffffffu - 7;
  return all;
}

void run_all(bool send_device_driven, bool recv_device_driven, bool packets, int epochs) {
  for (PairShape shape : shapes(packets)) {
    shape.send_device_driven = send_device_driven;
    shape.recv_device_driven = recv_device_driven;
    shape.packets = packets;
    shape.has_front = !send_device_driven;
    for (const Granularity granularity : granularities) {
      if (granularity == Granularity::divergent && shape.send_partitions % 7 == 0) continue;  // no permutation then
      const int blocks = granularity == Granularity::block ? std::min(shape.send_partitions, 8) : 2;
      run(shape, {blocks, 96, granularity, epochs, 2000});
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(DeviceGpuTransfer, device_driven_on_both_sides) {
  run_all(true, true, false, 60);
}
TEST(DeviceGpuTransfer, packets) {
  run_all(true, true, true, 60);
}
TEST(DeviceGpuTransfer, host_driven_on_both_sides_with_readiness_at_every_moment) {
  run_all(false, false, false, 24);
}
TEST(DeviceGpuTransfer, a_device_driven_send_to_a_host_driven_receive) {
  run_all(true, false, false, 24);
}
TEST(DeviceGpuTransfer, a_host_driven_send_to_a_device_driven_receive) {
  run_all(false, true, false, 24);
}

TEST(DeviceGpuTransfer, in_place_kernels_store_into_the_receivers_memory_themselves) {
  PairShape shape = shape_of(16, 8, 4, 16 * 4096);
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.in_place = true;
  run(shape, {8, 256, Granularity::block, 300, 1000});
}

TEST(DeviceGpuTransfer, the_engine_alone_moves_what_kernels_cannot_reach) {
  PairShape shape = shape_of(24, 24, 6, 24 * 1024);
  shape.mapped = false;
  for (const bool has_front : {false, true}) {
    shape.has_front = has_front;
    run(shape, {8, 128, Granularity::block, 30, 1000});
    run(shape, {2, 128, Granularity::aggregated, 30, 1000});
  }
}

// Message-passing litmus tests: many short epochs with chance delays, where a flag ahead of its data would be seen.
TEST(DeviceGpuTransfer, litmus_flag_in_gpu_memory_behind_the_bytes_of_many_blocks) {
  for (const std::int64_t bytes : {std::int64_t{16} * 64, std::int64_t{16} * 8192}) {
    PairShape shape = shape_of(16, 1, 1, bytes);
    shape.send_device_driven = shape.recv_device_driven = true;
    run(shape, {16, 256, Granularity::block, 10000, 3000});
    shape.transport_partitions = 4;
    shape.recv_partitions = 16;
    run(shape, {16, 256, Granularity::block, 5000, 3000});
  }
}

TEST(DeviceGpuTransfer, litmus_flag_in_host_memory_behind_the_bytes_of_many_blocks) {
  PairShape shape = shape_of(16, 1, 1, 16 * 1024);
  shape.send_device_driven = true;
  run(shape, {16, 256, Granularity::block, 3000, 3000});
}

TEST(DeviceGpuTransfer, litmus_packets) {
  PairShape shape = shape_of(16, 16, 4, 16 * 512);
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.packets = true;
  shape.before = 0xffffffffu - 5000;
  run(shape, {16, 128, Granularity::block, 20000, 1500});
}

}  // namespace
}  // namespace partita::test
