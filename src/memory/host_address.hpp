// The name of a byte in exported host memory, as it travels in messages.
#pragma once

#include <cstdint>

#include "core/wire.hpp"

namespace partita::memory {

/// Names a byte in exported host memory of some rank, to any rank of the node.
struct HostAddress {
  std::uint64_t segment = 0;
  std::uint64_t offset_bytes = 0;
};

inline HostAddress read_host_address(wire::Reader& message) {
  HostAddress address;
  address.segment = message.get<std::uint64_t>();
  address.offset_bytes = message.get<std::uint64_t>();
  return address;
}

}  // namespace partita::memory
