// What CUDA knows of an address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/cuda/driver.hpp"
#include "memory/device.hpp"

namespace partita::memory::cuda {

/// Host where CUDA is not in use, and for what CUDA does not know. The driver is asked each time, but for what is
/// surely the host's: a memory of earlier answers would have to ask it for the buffer's id, which takes as long.
Place place_of(const void* address);

/// What the driver knows of an address of GPU memory.
struct Allocation {
  Place place;
  bool ipc_capable = false;  ///< cudaIpcGetMemHandle takes it
  bool pooled = false;       ///< by a stream-ordered allocator
  std::uint64_t handle_types = 0;
  std::uint64_t buffer_id = 0;  ///< never used again in this process
  std::byte* base = nullptr;    ///< of the allocation; where memory is mapped by hand, of the reserved addresses
  std::size_t size_bytes = 0;
};
Allocation allocation_of(const void* address);

inline CUdeviceptr device_address(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

}  // namespace partita::memory::cuda
