// GPU memory of this rank that others of the node may map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <variant>

#include "core/world.hpp"
#include "memory/cuda/context.hpp"
#include "memory/cuda/pointer.hpp"
#include "memory/device.hpp"

namespace partita::memory::cuda {

using Exported = std::variant<DeviceExport, NotMappable>;

/// Any thread may call.
class Exports {
 public:
  Exports(World& world, Contexts& contexts) : world_(world), contexts_(contexts) {}

  /// See DeviceMemory::export_to.
  Exported export_to(int peer, const void* address, std::size_t size_bytes);
  /// See DeviceMemory::name_to: memory of cudaMalloc, whose handle is good for all peers.
  std::variant<DevicePiece, NotMappable> by_handle(const void* address, std::size_t size_bytes);
  /// See DeviceMemory::why_not_exported.
  std::string why_not_exported(const void* address, std::size_t size_bytes);

 private:
  struct Known {
    std::uint64_t buffer_id = 0;
    CUipcMemHandle handle{};
  };
  Exported by_ipc(const Allocation& allocation, DevicePiece piece);
  Exported by_descriptors(int peer, int device, const std::byte* first, std::size_t size_bytes);

  World& world_;
  Contexts& contexts_;
  std::mutex mutex_;
  std::map<const std::byte*, Known> known_;  ///< handles by the allocation's base
  std::uint64_t next_name_ = 1;              ///< of a descriptor; never used again
};

}  // namespace partita::memory::cuda
