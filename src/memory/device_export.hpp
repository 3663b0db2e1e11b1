// The name of a buffer in GPU memory, as it travels in messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/wire.hpp"

namespace partita::memory {

/// One piece of GPU memory that a rank named to another of its node.
struct DevicePiece {
  enum class Way : std::uint8_t {
    same_process,     ///< `address` is good as it is
    ipc,              ///< `handle` is a CUDA IPC handle of the whole allocation
    file_descriptor,  ///< VMM memory: its descriptor was passed over the node's sockets under the name `segment`
  };
  Way way{};
  std::array<std::byte, 64> handle{};
  std::uint64_t segment = 0;
  std::uint64_t buffer_id = 0;  ///< of the allocation: tells a re-used address from the old one
  std::uint64_t address = 0;    ///< in its own process
  std::uint64_t allocation_bytes = 0;
  std::uint64_t offset_bytes = 0;  ///< of the piece in its allocation
  std::uint64_t size_bytes = 0;

  /// Where its allocation lies in its own process.
  std::uint64_t allocation_address() const { return address - offset_bytes; }
};

/// A buffer: one piece, or several where it spans VMM handles.
using DeviceExport = std::vector<DevicePiece>;

inline wire::Writer& put_export(wire::Writer& message, const DeviceExport& exported) {
  message.put(static_cast<std::uint64_t>(exported.size()));
  for (const DevicePiece& piece : exported) {
    message.put(piece.way).put(piece.handle).put(piece.segment).put(piece.buffer_id).put(piece.address);
    message.put(piece.allocation_bytes).put(piece.offset_bytes).put(piece.size_bytes);
  }
  return message;
}

/// Several pieces are all descriptors, and each lies in its allocation. Throws Error.
inline DeviceExport get_export(wire::Reader& message) {
  DeviceExport exported(message.get_count(1 + sizeof(DevicePiece::handle) + 6 * sizeof(std::uint64_t)));
  for (DevicePiece& piece : exported) {
    piece.way = message.get_enum(DevicePiece::Way::file_descriptor);
    piece.handle = message.get<std::array<std::byte, 64>>();
    piece.segment = message.get<std::uint64_t>();
    piece.buffer_id = message.get<std::uint64_t>();
    piece.address = message.get<std::uint64_t>();
    piece.allocation_bytes = message.get<std::uint64_t>();
    piece.offset_bytes = message.get<std::uint64_t>();
    piece.size_bytes = message.get<std::uint64_t>();
    const bool alone = exported.size() == 1;
    const bool inside =
        piece.offset_bytes <= piece.allocation_bytes && piece.size_bytes <= piece.allocation_bytes - piece.offset_bytes;
    if (piece.way == DevicePiece::Way::same_process ? !alone
                                                    : !inside || (!alone && piece.way == DevicePiece::Way::ipc)) {
      throw wire::malformed("names {} bytes at {} of {} bytes of GPU memory, one of {} pieces", piece.size_bytes,
                            piece.offset_bytes, piece.allocation_bytes, exported.size());
    }
  }
  if (exported.empty()) throw wire::malformed("names no piece of GPU memory where one is expected");
  return exported;
}

}  // namespace partita::memory
