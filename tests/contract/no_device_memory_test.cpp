// Where there is no GPU, or no CUDA in the build, host memory is host memory and the rest says what is missing.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"
#include "memory/host.hpp"

namespace partita::test {
namespace {

bool machine_has_gpus() {
  std::error_code none;
  return std::filesystem::exists("/proc/driver/nvidia/gpus", none);
}

class NoDeviceMemory : public testing::Test {
 protected:
  World world_{MPI_COMM_WORLD};
  memory::HostMemory host_memory_{world_};
  std::unique_ptr<memory::DeviceMemory> device_memory_ = memory::make_device_memory(world_, host_memory_);
};

TEST_F(NoDeviceMemory, host_memory_is_host) {
  const std::vector<int> heap(100);
  std::byte* exported = host_memory_.allocate_block(100);
  for (const void* address :
       {static_cast<const void*>(heap.data()), static_cast<const void*>(exported), static_cast<const void*>(nullptr)}) {
    EXPECT_EQ(device_memory_->place_of(address, 1).kind, memory::Kind::host);
    EXPECT_EQ(device_memory_->place_of(address, 1).device, -1);
  }
  host_memory_.free_block(exported, 100);
}

TEST_F(NoDeviceMemory, what_needs_a_gpu_says_that_there_is_none) {
  if (machine_has_gpus()) GTEST_SKIP() << "this machine has GPUs";
  std::byte bytes[64]{};
  std::byte* exported = host_memory_.allocate_block(64);
  memory::DevicePiece piece;
  piece.way = memory::DevicePiece::Way::ipc;
  piece.allocation_bytes = 64;
  EXPECT_THROW(device_memory_->export_to(0, bytes, sizeof bytes), Error);
  EXPECT_THROW(device_memory_->import(0, {piece}, 0), Error);
  EXPECT_THROW(device_memory_->allocate_block(0, 64), Error);
  EXPECT_THROW(device_memory_->device_pointer(0, exported), Error);
  EXPECT_THROW(device_memory_->make_copy_queue(0), Error);
  EXPECT_THROW(device_memory_->stream_of_program(nullptr), Error);
  EXPECT_EQ(memory::describe_gpus().find("no GPUs: "), 0u) << memory::describe_gpus();
  try {
    device_memory_->allocate_block(0, 64);
  } catch (const Error& error) {
    EXPECT_NE(error.sentence().find("CUDA"), std::string::npos) << error.sentence();
  }
  device_memory_->trim(0, memory::Closing::all);
  host_memory_.free_block(exported, 64);
}

TEST_F(NoDeviceMemory, host_memory_is_copied) {
  const char text[] = "ready";
  char copy[sizeof text]{};
  device_memory_->copy(copy, text, sizeof text);
  EXPECT_STREQ(copy, text);
}

}  // namespace
}  // namespace partita::test
