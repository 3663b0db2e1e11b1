// Blocks of GPU memory, host segments that GPUs address, copy queues; and that none of it is felt by the program.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "contract/gpu_buffers.hpp"
#include "contract/gpu_job.hpp"
#include "core/error.hpp"
#include "memory/cuda/driver.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

class DeviceQueueContract : public GpuJob {
 protected:
  /// Blocks until `word`, which a GPU writes, is `value`.
  static void await(std::byte* word, Epoch value) {
    std::atomic_ref<Epoch> flag(*reinterpret_cast<Epoch*>(word));
    while (flag.load(std::memory_order_acquire) != value) std::this_thread::yield();
  }
  Epoch read_word(const std::byte* word) {
    Epoch value = 0;
    device_memory().copy(&value, word, sizeof value);
    return value;
  }
};

TEST_F(DeviceQueueContract, blocks_are_aligned_zeroed_and_apart) {
  std::set<std::byte*> seen;
  for (const std::size_t size : {std::size_t{1}, std::size_t{128}, std::size_t{129}, std::size_t{5000},
                                 std::size_t{600} << 10, std::size_t{3} << 20}) {
    for (int i = 0; i < 3; ++i) {
      std::byte* block = device_memory().allocate_block(gpu(), size);
      EXPECT_TRUE(seen.insert(block).second);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 128, 0u);
      EXPECT_EQ(read(block, size), std::vector<std::byte>(size));
      write(block, pattern(size, 3));
      if (i == 1) device_memory().free_block(gpu(), block, size);
      if (i == 1) seen.erase(block);
    }
  }
  EXPECT_THROW(device_memory().allocate_block(gpu_count(), 64), Error);
  EXPECT_THROW(device_memory().allocate_block(-1, 64), Error);
}

TEST_F(DeviceQueueContract, a_block_that_was_not_zeroed_is_zeroed_for_the_next_owner) {
  std::byte* const before = device_memory().allocate_unzeroed_block(gpu(), 300);
  write(before, pattern(300, 7));
  device_memory().free_block(gpu(), before, 300);
  std::byte* const block = device_memory().allocate_block(gpu(), 300);
  EXPECT_EQ(block, before);
  EXPECT_EQ(read(block, 300), std::vector<std::byte>(300));
  device_memory().free_block(gpu(), block, 300);
  EXPECT_THROW(device_memory().allocate_unzeroed_block(gpu_count(), 64), Error);
}

TEST_F(DeviceQueueContract, a_block_is_a_flag_for_the_peer) {
  std::byte* block = device_memory().allocate_block(gpu(), 2 * sizeof(Epoch));
  const auto theirs = imported(exchange(exported(block + sizeof(Epoch), sizeof(Epoch))));
  const auto queue = device_memory().make_copy_queue(gpu());
  queue->write(reinterpret_cast<Epoch*>(theirs.get()), 4711);
  queue->drain();
  harness_barrier();
  EXPECT_EQ(read_word(block), 0u);
  EXPECT_EQ(read_word(block + sizeof(Epoch)), 4711u);
  harness_barrier();
  device_memory().free_block(gpu(), block, 2 * sizeof(Epoch));
}

TEST_F(DeviceQueueContract, a_gpu_writes_into_the_host_memory_of_the_peer) {
  std::byte* word = host_memory().allocate_block(sizeof(Epoch));
  std::byte* theirs = host_memory().import(peer(), exchange_host(host_memory().export_to(peer(), word)), sizeof(Epoch));
  auto* address = reinterpret_cast<Epoch*>(device_memory().device_pointer(gpu(), theirs));
  const auto queue = device_memory().make_copy_queue(gpu());
  for (Epoch value = 1; value <= 100; ++value) {
    queue->write(address, value);
    await(word, value);
    harness_barrier();
  }
  queue->drain();
  EXPECT_TRUE(queue->idle());
  harness_barrier();
  host_memory().free_block(word, sizeof(Epoch));
}

TEST_F(DeviceQueueContract, a_segment_is_registered_once_and_until_it_is_freed) {
  for (int round = 0; round < 3; ++round) {
    std::byte* segment = host_memory().allocate(memory::HostMemory::own_segment_bytes + 1);
    std::byte* first = device_memory().device_pointer(gpu(), segment);
    EXPECT_EQ(device_memory().device_pointer(gpu(), segment + 12345), first + 12345);
    const auto queue = device_memory().make_copy_queue(gpu());
    queue->write(reinterpret_cast<Epoch*>(first + 64), 7);
    queue->drain();
    Epoch value = 0;
    std::memcpy(&value, segment + 64, sizeof value);
    EXPECT_EQ(value, 7u);
    host_memory().free(segment);
  }
  std::byte* segment = host_memory().allocate(memory::HostMemory::own_segment_bytes + 1);  // registered by the program
  must(cudaHostRegister(segment, 4096, cudaHostRegisterMapped), "cudaHostRegister");
  EXPECT_NE(device_memory().device_pointer(gpu(), segment), nullptr);
  must(cudaHostUnregister(segment), "cudaHostUnregister");
  host_memory().free(segment);
  Epoch local = 0;
  EXPECT_THROW(device_memory().device_pointer(gpu(), reinterpret_cast<std::byte*>(&local)), Error);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

/// Litmus: a flag after its data, many times, sizes at random; the receiver looks at all bytes as soon as it sees the
/// flag, and both ranks send at once.
TEST_F(DeviceQueueContract, data_is_there_when_its_flag_is) {
  constexpr std::size_t capacity = std::size_t{4} << 20;
  const auto rounds = static_cast<Epoch>(environment_number("PARTITEST_LITMUS_ROUNDS", 300));
  const CudaBuffer source(capacity);
  const CudaBuffer target(capacity);
  std::byte* word = host_memory().allocate_block(sizeof(Epoch));
  const auto mapped = imported(exchange(exported(target.data(), capacity)));
  std::byte* their_word =
      host_memory().import(peer(), exchange_host(host_memory().export_to(peer(), word)), sizeof(Epoch));
  auto* flag = reinterpret_cast<Epoch*>(device_memory().device_pointer(gpu(), their_word));
  const auto queue = device_memory().make_copy_queue(gpu());

  std::mt19937_64 random(99);  // the same on both ranks
  for (Epoch round = 1; round <= rounds; ++round) {
    const std::size_t size = 1 + random() % (round % 10 == 0 ? capacity : std::size_t{20000});
    const std::size_t offset = random() % (capacity - size + 1);
    write(source.data(), pattern(size, round * 2 + static_cast<Epoch>(rank())));
    queue->copy(mapped.get() + offset, source.data(), size / 2);
    queue->copy(mapped.get() + offset + size / 2, source.data() + size / 2, size - size / 2);
    queue->write(flag, round);
    await(word, round);
    ASSERT_EQ(read(target.data() + offset, size), pattern(size, round * 2 + static_cast<Epoch>(peer())))
        << "round " << round << ", " << size << " bytes";
    queue->drain();
    harness_barrier();
  }
  host_memory().free_block(word, sizeof(Epoch));
}

TEST_F(DeviceQueueContract, copies_reach_host_memory_of_every_kind) {
  constexpr std::size_t size = 300001;
  const CudaBuffer source(size);
  const auto bytes = pattern(size, 42);
  write(source.data(), bytes);
  std::vector<std::byte> heap(size);
  std::byte* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), size), cudaSuccess);
  std::byte* segment = host_memory().allocate(memory::HostMemory::own_segment_bytes + size);
  device_memory().device_pointer(gpu(), segment);
  const auto queue = device_memory().make_copy_queue(gpu());
  queue->copy(heap.data(), source.data(), 0);
  EXPECT_EQ(heap, std::vector<std::byte>(size));
  for (std::byte* target : {heap.data(), pinned, segment}) {
    queue->copy(target, source.data(), size);
    queue->drain();
    EXPECT_EQ(std::vector<std::byte>(target, target + size), bytes);
  }
  device_memory().copy(heap.data(), pinned, size);
  cudaFreeHost(pinned);
  host_memory().free(segment);
}

TEST_F(DeviceQueueContract, a_thread_without_a_gpu_stays_without) {
  const CudaBuffer source(1000);
  std::thread([&] {
    std::byte* block = device_memory().allocate_block(gpu(), 100);
    device_memory().make_copy_queue(gpu())->drain();
    device_memory().copy(block, source.data(), 100);
    device_memory().free_block(gpu(), block, 100);
    CUdevice device = 0;
    EXPECT_EQ(memory::cuda::driver().cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  int device = -1;
  must(cudaGetDevice(&device), "cudaGetDevice");
  EXPECT_EQ(device, gpu());
}

TEST_F(DeviceQueueContract, a_stream_capture_of_the_program_goes_on) {
  const CudaBuffer source(1000);
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  must(cudaMemsetAsync(source.data(), 1, 1000, stream), "cudaMemsetAsync");
  std::byte* block = device_memory().allocate_block(gpu(), std::size_t{5} << 20);
  EXPECT_EQ(device_memory().place_of(block, 1).device, gpu());
  exported(block, 10);
  device_memory().copy(block, source.data(), 100);
  device_memory().free_block(gpu(), block, std::size_t{5} << 20);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  if (graph != nullptr) must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

}  // namespace
}  // namespace partita::test
