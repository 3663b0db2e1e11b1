// Small pieces of the memory pools, each returned by its owner's end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/device.hpp"
#include "memory/host.hpp"

namespace partita::memory {

/// Host memory that the ranks of the node can map, zeroed.
class HostBlock {
 public:
  HostBlock(HostMemory& memory, std::size_t size_bytes)
      : memory_(memory), size_bytes_(size_bytes), address_(memory.allocate_block(size_bytes)) {}
  ~HostBlock() { memory_.free_block(address_, size_bytes_); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  std::byte* address() const { return address_; }

 private:
  HostMemory& memory_;
  std::size_t size_bytes_;
  std::byte* address_;
};

/// GPU memory that the ranks of the node can map.
class DeviceBlock {
 public:
  /// What it holds at first; `anything` is for an owner that writes all of it, and cheaper.
  enum class Contents : std::uint8_t { zeros, anything };

  DeviceBlock(DeviceMemory& memory, int device, std::size_t size_bytes, Contents contents = Contents::zeros)
      : memory_(memory),
        device_(device),
        size_bytes_(size_bytes),
        address_(contents == Contents::zeros ? memory.allocate_block(device, size_bytes)
                                             : memory.allocate_unzeroed_block(device, size_bytes)) {}
  ~DeviceBlock() { memory_.free_block(device_, address_, size_bytes_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  std::byte* address() const { return address_; }
  std::size_t size_bytes() const { return size_bytes_; }
  int device() const { return device_; }

 private:
  DeviceMemory& memory_;
  int device_;
  std::size_t size_bytes_;
  std::byte* address_;
};

}  // namespace partita::memory
