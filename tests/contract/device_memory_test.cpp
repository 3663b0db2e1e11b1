// What GPU memory is, and how two processes share it: contents are compared byte by byte, in both directions.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "contract/gpu_buffers.hpp"
#include "contract/gpu_job.hpp"
#include "core/error.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

using memory::DevicePiece;
using memory::Kind;

class DeviceMemoryContract : public GpuJob {
 protected:
  Kind kind_of(const void* address) { return device_memory().place_of(address, 1).kind; }
  int device_of(const void* address) { return device_memory().place_of(address, 1).device; }

  /// Both ranks name `size_bytes` at `offset_bytes` of their buffers to each other; each reads what the other wrote,
  /// and writes what the other then reads. Bytes outside stay as they were.
  void share(std::byte* data, std::size_t whole_bytes, std::size_t offset_bytes, std::size_t size_bytes) {
    const auto seed = static_cast<std::uint64_t>(rank()) * 1000 + offset_bytes;
    const auto peer_seed = static_cast<std::uint64_t>(peer()) * 1000 + offset_bytes;
    const auto before = pattern(whole_bytes, seed);
    write(data, before);
    const auto theirs = exchange(exported(data + offset_bytes, size_bytes));
    const auto mapped = imported(theirs);
    ASSERT_NE(mapped, nullptr);

    const auto peer_bytes = pattern(whole_bytes, peer_seed);
    const auto slice = peer_bytes.begin() + static_cast<std::ptrdiff_t>(offset_bytes);
    EXPECT_EQ(read(mapped.get(), size_bytes),
              std::vector<std::byte>(slice, slice + static_cast<std::ptrdiff_t>(size_bytes)));
    harness_barrier();
    write(mapped.get(), pattern(size_bytes, seed + 77));
    harness_barrier();
    auto after = before;
    const auto written = pattern(size_bytes, peer_seed + 77);
    std::copy(written.begin(), written.end(), after.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
    EXPECT_EQ(read(data, whole_bytes), after);
    harness_barrier();
  }
};

TEST_F(DeviceMemoryContract, host_memory_is_host) {
  int local = 0;
  const std::vector<int> heap(1000);
  EXPECT_EQ(kind_of(nullptr), Kind::host);
  EXPECT_EQ(kind_of(&local), Kind::host);
  EXPECT_EQ(kind_of(heap.data()), Kind::host);
  EXPECT_EQ(kind_of(reinterpret_cast<const void*>(&std::abort)), Kind::host);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 100), cudaSuccess);
  EXPECT_EQ(kind_of(pinned), Kind::host);
  cudaFreeHost(pinned);
}

TEST_F(DeviceMemoryContract, gpu_memory_tells_its_kind_and_gpu) {
  const CudaBuffer plain(1000);
  const CudaBuffer managed(1000, CudaBuffer::From::managed);
  const CudaBuffer pooled(1000, CudaBuffer::From::pool);
  const MappedBuffer mapped(2);
  for (const std::byte* address : {plain.data(), plain.data() + 999, pooled.data(), pooled.data() + 500, mapped.data(),
                                   mapped.data() + mapped.size_bytes() - 1}) {
    EXPECT_EQ(kind_of(address), Kind::device);
    EXPECT_EQ(device_of(address), gpu());
  }
  EXPECT_EQ(kind_of(managed.data() + 10), Kind::managed);
}

TEST_F(DeviceMemoryContract, freed_memory_is_not_device_memory_any_more) {
  const std::byte* address = nullptr;
  {
    const CudaBuffer buffer(std::size_t{64} << 20);
    address = buffer.data();
    EXPECT_EQ(kind_of(address), Kind::device);
    exported(address, 1);
  }
  EXPECT_EQ(kind_of(address), Kind::host);
  EXPECT_THROW(device_memory().export_to(peer(), address, 1), Error);
}

TEST_F(DeviceMemoryContract, a_buffer_is_shared_at_any_offset) {
  constexpr std::size_t whole = (std::size_t{3} << 20) + 4321;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{257}, std::size_t{2} << 20}) {
    const CudaBuffer buffer(whole);
    share(buffer.data(), whole, offset, whole - offset);
    share(buffer.data(), whole, offset, 13);
    EXPECT_EQ(exported(buffer.data() + offset, 1).front().way, DevicePiece::Way::ipc);
  }
}

TEST_F(DeviceMemoryContract, small_allocations_do_not_mix) {
  const CudaBuffer first(300);
  const CudaBuffer second(300);
  share(first.data(), 300, 3, 200);
  share(second.data(), 300, 5, 200);
  share(first.data(), 300, 0, 300);
}

TEST_F(DeviceMemoryContract, memory_mapped_by_hand_is_shared_by_descriptors) {
  const MappedBuffer buffer(1);
  share(buffer.data(), buffer.size_bytes(), 0, buffer.size_bytes());
  share(buffer.data(), buffer.size_bytes(), 12345, 54321);
}

TEST_F(DeviceMemoryContract, a_buffer_over_several_handles_is_one_range_for_the_peer) {
  const MappedBuffer buffer(3);
  const std::size_t granule = buffer.granule_bytes();
  EXPECT_EQ(exported(buffer.data() + granule - 1, 1).size(), 1u);
  EXPECT_EQ(exported(buffer.data() + granule - 1, 2).size(), 2u);
  exchange({});  // takes the descriptors of these two along
  share(buffer.data(), buffer.size_bytes(), granule - 100, 200);
  share(buffer.data(), buffer.size_bytes(), 77, buffer.size_bytes() - 78);
}

TEST_F(DeviceMemoryContract, descriptors_may_be_asked_for_in_another_order) {
  const MappedBuffer first(1);
  const MappedBuffer second(2);
  write(first.data(), pattern(100, 1));
  write(second.data(), pattern(100, 2));
  const auto their_first = exchange(exported(first.data(), 100));
  const auto their_second = exchange(exported(second.data(), 100));
  const auto second_mapped = imported(their_second);
  const auto first_mapped = imported(their_first);
  EXPECT_EQ(read(first_mapped.get(), 100), pattern(100, 1));
  EXPECT_EQ(read(second_mapped.get(), 100), pattern(100, 2));
  harness_barrier();
}

TEST_F(DeviceMemoryContract, an_allocation_is_mapped_once) {
  const CudaBuffer plain(5000);
  const MappedBuffer by_hand(1);
  for (std::byte* data : {plain.data(), by_hand.data()}) {
    const auto first = imported(exchange(exported(data, 100)));
    const auto second = imported(exchange(exported(data + 1000, 100)));
    EXPECT_EQ(second.get() - first.get(), 1000);
    harness_barrier();
  }
}

TEST_F(DeviceMemoryContract, an_export_may_be_mapped_twice) {
  const CudaBuffer plain(5000);
  const MappedBuffer by_hand(1);
  for (std::byte* data : {plain.data(), by_hand.data()}) {
    const auto theirs = exchange(exported(data, 100));
    const auto first = imported(theirs);
    EXPECT_EQ(imported(theirs), first);
    harness_barrier();
  }
}

TEST_F(DeviceMemoryContract, unused_mappings_close_and_open_again) {
  const CudaBuffer plain(5000);
  const MappedBuffer by_hand(1);
  for (std::byte* data : {plain.data(), by_hand.data()}) {
    const auto held = imported(exchange(exported(data, 100)));
    device_memory().trim(0, memory::Closing::all);
    write(data, pattern(100, 5));
    harness_barrier();
    EXPECT_EQ(read(held.get(), 100), pattern(100, 5));
    harness_barrier();
  }
  device_memory().trim(std::size_t{1} << 30, memory::Closing::all);  // they are smaller, so they stay
  device_memory().trim(0, memory::Closing::all);
  share(plain.data(), 5000, 10, 100);
  share(by_hand.data(), by_hand.size_bytes(), 10, 100);
}

/// As beside a kernel that waits for this process.
TEST_F(DeviceMemoryContract, what_came_by_descriptors_closes_beside_work_that_waits) {
  const CudaBuffer plain(5000);
  const MappedBuffer by_hand(1);
  const auto their_plain = exchange(exported(plain.data(), 100));
  const auto theirs = exchange(exported(by_hand.data(), 100));
  imported(their_plain);
  imported(theirs);

  std::atomic<bool> released{false};
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const auto wait_for_the_host = [](void* flag) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!static_cast<std::atomic<bool>*>(flag)->load() && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  ASSERT_EQ(cudaLaunchHostFunc(stream, wait_for_the_host, &released), cudaSuccess);
  const auto begin = std::chrono::steady_clock::now();
  device_memory().trim(0, memory::Closing::without_blocking);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  released = true;
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaStreamDestroy(stream);

  EXPECT_THROW(device_memory().import(peer(), theirs, gpu()), Error) << "its descriptor went with the mapping";
  EXPECT_NE(imported(their_plain), nullptr);
  harness_barrier();
}

TEST_F(DeviceMemoryContract, what_is_declined_is_taken_and_can_be_passed_again) {
  const MappedBuffer by_hand(1);
  const auto theirs = exchange(exported(by_hand.data(), 100));
  device_memory().decline(peer(), theirs);
  EXPECT_THROW(device_memory().import(peer(), theirs, gpu()), Error) << "its descriptor was taken";
  harness_barrier();
  share(by_hand.data(), by_hand.size_bytes(), 10, 100);
}

TEST_F(DeviceMemoryContract, a_gpu_has_as_much_memory_as_cuda_says) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, gpu()), cudaSuccess);
  EXPECT_EQ(device_memory().memory_bytes(gpu()), properties.totalGlobalMem);
}

TEST_F(DeviceMemoryContract, an_address_used_again_is_mapped_anew) {
  constexpr std::size_t size = std::size_t{32} << 20;
  const std::byte* address = nullptr;
  std::uint64_t id = 0;
  int seen_again = 0;
  for (int round = 0; round < 6; ++round) {
    const CudaBuffer buffer(size);
    const auto pieces = exported(buffer.data(), 100);
    exchange({});
    if (buffer.data() == address) {
      ++seen_again;
      EXPECT_NE(pieces.front().buffer_id, id);
    }
    address = buffer.data();
    id = pieces.front().buffer_id;
    share(buffer.data(), 4096, static_cast<std::size_t>(round), 1000);
  }
  RecordProperty("addresses_used_again", seen_again);
}

TEST_F(DeviceMemoryContract, new_memory_mapped_by_hand_at_an_old_address_is_mapped_anew) {
  MappedBuffer buffer(2);
  for (int round = 0; round < 4; ++round) {
    share(buffer.data(), buffer.size_bytes(), 100 + static_cast<std::size_t>(round), buffer.granule_bytes());
    buffer.renew();
  }
}

TEST_F(DeviceMemoryContract, what_cannot_be_shared_says_why) {
  const CudaBuffer managed(1000, CudaBuffer::From::managed);
  const CudaBuffer pooled(1000, CudaBuffer::From::pool);
  const MappedBuffer private_memory(1, false);
  const CudaBuffer plain(1000);
  EXPECT_NE(refusal(managed.data(), 10).find("managed"), std::string::npos);
  EXPECT_NE(refusal(pooled.data(), 10).find("pool"), std::string::npos);
  EXPECT_NE(refusal(private_memory.data(), 10).find("handle type"), std::string::npos);
  EXPECT_NE(refusal(plain.data(), std::size_t{1} << 40).find("past the end"), std::string::npos);
  EXPECT_EQ(refusal(plain.data(), 1000), "");
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(DeviceMemoryContract, what_a_peer_cannot_have_meant_is_refused) {
  DevicePiece piece;
  piece.way = DevicePiece::Way::ipc;
  EXPECT_THROW(device_memory().import(peer(), {}, gpu()), Error);
  piece.size_bytes = 10;
  EXPECT_THROW(device_memory().import(peer(), {piece}, gpu()), Error);
  piece.allocation_bytes = 10;
  EXPECT_THROW(device_memory().import(peer(), {piece, piece}, gpu()), Error);
  EXPECT_THROW(device_memory().import(peer(), {piece}, gpu_count()), Error);
  piece.way = DevicePiece::Way::file_descriptor;
  piece.segment = 999999;
  EXPECT_THROW(device_memory().import(peer(), {piece}, gpu()), Error);
  piece.way = DevicePiece::Way::ipc;  // a handle of zeros
  const auto result = device_memory().import(peer(), {piece}, gpu());
  EXPECT_TRUE(std::holds_alternative<memory::NotMappable>(result));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(DeviceMemoryContract, own_memory_keeps_its_address) {
  const CudaBuffer plain(1000);
  const CudaBuffer pooled(1000, CudaBuffer::From::pool);
  for (std::byte* address : {plain.data() + 10, pooled.data() + 10}) {
    const auto pieces = std::get<memory::DeviceExport>(device_memory().export_to(rank(), address, 100));
    EXPECT_EQ(std::get<0>(device_memory().import(rank(), pieces, gpu())).get(), address);
  }
}

TEST_F(DeviceMemoryContract, describe_names_every_gpu) {
  const std::string text = memory::describe_gpus();
  for (int device = 0; device < gpu_count(); ++device) {
    EXPECT_NE(text.find("GPU " + std::to_string(device) + ": "), std::string::npos) << text;
  }
  if (rank() == 0) std::printf("%s\n", text.c_str());
}

}  // namespace
}  // namespace partita::test
