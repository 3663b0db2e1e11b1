// The name of a byte in exported host memory, as it travels in messages.
#pragma once

#include <cstdint>

#include "core/peer_file.hpp"
#include "core/wire.hpp"

namespace partita::memory {

/// Names a byte in exported host memory of some rank, to any rank of the node.
struct HostAddress {
  std::uint64_t segment = 0;
  std::uint64_t offset_bytes = 0;
  FileName file;  ///< the segment in the owner's process; none where its descriptor was passed
};

inline wire::Writer& put_host_address(wire::Writer& message, const HostAddress& address) {
  return message.put(address.segment).put(address.offset_bytes).put(address.file.number).put(address.file.inode);
}

inline HostAddress read_host_address(wire::Reader& message) {
  HostAddress address;
  address.segment = message.get<std::uint64_t>();
  address.offset_bytes = message.get<std::uint64_t>();
  address.file.number = message.get<std::int32_t>();
  address.file.inode = message.get<std::uint64_t>();
  return address;
}

}  // namespace partita::memory
