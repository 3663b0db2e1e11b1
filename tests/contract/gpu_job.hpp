// Two ranks with GPU memory: what they share, and how they name memory to one another.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/world.hpp"
#include "memory/device.hpp"
#include "memory/host.hpp"

namespace partita::test {

/// Has chosen this rank's GPU, and made CUDA start on it.
class GpuJob : public testing::Test {
 protected:
  void SetUp() override;

  World& world();
  memory::HostMemory& host_memory();
  memory::DeviceMemory& device_memory();
  int peer() const;

  /// Exports to the peer; fails the case where that is not possible.
  memory::DeviceExport exported(const std::byte* address, std::size_t size_bytes);
  /// Why it cannot be exported to the peer; empty if it can.
  std::string refusal(const std::byte* address, std::size_t size_bytes);
  /// Gives the peer ours, and returns its own.
  memory::DeviceExport exchange(const memory::DeviceExport& ours);
  memory::HostAddress exchange_host(memory::HostAddress ours);
  /// Maps what the peer named; fails the case where that is not possible.
  std::shared_ptr<std::byte> imported(const memory::DeviceExport& theirs);

  /// Bytes that depend on seed and place.
  static std::vector<std::byte> pattern(std::size_t size_bytes, std::uint64_t seed);
  void write(std::byte* to, const std::vector<std::byte>& bytes);
  std::vector<std::byte> read(const std::byte* from, std::size_t size_bytes);
};

}  // namespace partita::test
