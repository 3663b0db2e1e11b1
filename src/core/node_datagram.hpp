// What travels with a descriptor over a node socket (docs/design/runtime.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace partita {

/// What a descriptor stands for; each kind has names of its own.
enum class DescriptorKind : std::uint32_t { host_segment, device_memory };
inline constexpr std::size_t descriptor_kind_count = 2;

struct NodeDatagram {
  std::int32_t from = -1;  ///< world rank
  DescriptorKind kind{};
  std::uint64_t segment = 0;
  std::uint64_t size_bytes = 0;
};

/// Nothing where no rank has written these bytes: of another length, or of a kind that there is not.
inline std::optional<NodeDatagram> read_node_datagram(std::span<const std::byte> bytes) {
  std::uint32_t kind = 0;
  if (bytes.size() != sizeof(NodeDatagram)) return std::nullopt;
  std::memcpy(&kind, bytes.data() + offsetof(NodeDatagram, kind), sizeof kind);
  if (kind >= descriptor_kind_count) return std::nullopt;
  NodeDatagram datagram;
  std::memcpy(&datagram, bytes.data(), sizeof datagram);
  return datagram;
}

}  // namespace partita
