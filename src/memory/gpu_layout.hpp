// Datatypes with gaps in GPU memory: packed and unpacked by a kernel, behind other work of a stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "memory/device.hpp"
#include "memory/stream.hpp"

namespace partita::memory {

/// A Layout whose runs lie in a GPU's memory, where the kernel reads them: it lives until the streams are through with
/// what was asked for. Any thread.
class GpuLayout {
 public:
  /// `layout` has bytes. Throws Error. Allocates and copies: not behind a kernel that fills the GPU and waits
  /// for this process.
  GpuLayout(DeviceMemory& device_memory, int device, const Layout& layout);
  ~GpuLayout();
  GpuLayout(const GpuLayout&) = delete;
  GpuLayout& operator=(const GpuLayout&) = delete;

  /// Asks `stream`, of the same GPU, to copy elements that begin at `user` to `packed`, without gaps: `bytes` of them,
  /// which may end within an element. The GPU reaches both places. Does not block.
  void pack(Stream& stream, const std::byte* user, std::int64_t bytes, std::byte* packed) const;
  /// The reverse; bytes in gaps stay untouched.
  void unpack(Stream& stream, const std::byte* packed, std::byte* user, std::int64_t bytes) const;
  /// What their kernel is told.
  PackElements packing(const std::byte* user, std::int64_t bytes, std::byte* packed) const;
  PackElements unpacking(const std::byte* packed, std::byte* user, std::int64_t bytes) const;

 private:
  DeviceMemory& device_memory_;
  const int device_;
  const std::int64_t size_bytes_;
  const std::int64_t extent_bytes_;
  const std::size_t run_count_;
  std::uint64_t steps_;  ///< the bits of all distances and lengths, which say for what units they are aligned
  std::byte* const runs_;
};

}  // namespace partita::memory
