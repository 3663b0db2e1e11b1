// Whether the elements of a buffer lie in the memory of one GPU, all of them and still.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "memory/device.hpp"

namespace partita {

/// A buffer of a call, whose first element lies in the memory of GPU `device`. Asks the driver about one place of each
/// large page. One thread at a time.
class BufferPlace {
 public:
  BufferPlace(memory::DeviceMemory& device_memory, int device) : device_memory_(device_memory), device_(device) {}

  /// Elements of `layout` begin at `address`. Throws Error (buffer) where some lie elsewhere. Blocks of a call may lie
  /// anywhere, and so may the pieces of an element if the buffer `is_bottom`, MPI_BOTTOM; those of another one lie in
  /// one allocation (MPI-4, section 5.1.12), and only the first is looked at.
  void check(const std::byte* address, const Layout& layout, bool is_bottom);

 private:
  void check_byte(const std::byte* address);

  memory::DeviceMemory& device_memory_;
  const int device_;
  std::uintptr_t known_page_ = 0;
};

/// Throws Error (buffer) where what lay at `address` when the call was made, in the memory of GPU `device`, does so no
/// more. Memory that was taken there since is as good as the old.
void check_still_in_gpu(memory::DeviceMemory& device_memory, const std::byte* address, int device);

}  // namespace partita
