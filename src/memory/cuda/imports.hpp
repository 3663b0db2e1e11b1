// GPU memory of other ranks of the node, as this process maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "core/world.hpp"
#include "memory/cuda/context.hpp"
#include "memory/cuda/mapping.hpp"
#include "memory/device.hpp"

namespace partita::memory::cuda {

using Imported = std::variant<std::shared_ptr<std::byte>, NotMappable>;

/// Any thread may call.
class Imports {
 public:
  Imports(World& world, Contexts& contexts) : world_(world), contexts_(contexts) {}

  /// See DeviceMemory::import.
  Imported import(int peer, const DeviceExport& pieces, int device, Closing closing);
  /// See DeviceMemory::find_mapping.
  std::shared_ptr<std::byte> find_mapping(int peer, const DeviceExport& pieces, int device);
  /// See DeviceMemory::decline.
  void decline(int peer, const DeviceExport& pieces);
  /// See DeviceMemory::trim.
  std::uint64_t trim(std::size_t allowed_bytes, Closing closing);
  /// The GPU for which `address`, a peer's memory, is mapped; -1 where it is none.
  int device_for(const void* address);

 private:
  /// Peer, GPU, and of each piece the allocation: address, size, id.
  using Key = std::vector<std::uint64_t>;
  static std::uint64_t size_bytes_of(const Key& key);
  static Key key_of(int peer, const DeviceExport& pieces, int device);

  /// Whether they are of two allocations, one of which is in the other's way.
  static bool collide(const Key& one, const Key& other);

  Imported import_now(int peer, const DeviceExport& pieces, int device);
  std::shared_ptr<std::byte> piece_at(const Key& key, const DeviceExport& pieces) const;
  /// Throws Error where one of `descriptors` has been taken already. Under mutex_.
  void check_are_there(int peer, const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors);
  Imported own(const DevicePiece& piece, int device);
  /// Those of pieces that are descriptors; -1 for one that has been taken already.
  std::vector<UniqueFd> descriptors_of(int peer, const DeviceExport& pieces);
  Mapped map(const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors, int device);
  bool is_unused_at(const Key& place) const;
  template <class IsMeant>
  void close_unused(Closing closing, IsMeant is_meant);
  std::uint64_t unused_bytes();

  World& world_;
  Contexts& contexts_;
  /// While mappings are closed for whose end the driver may wait. Locked first.
  std::mutex closing_mutex_;
  std::mutex mapping_mutex_;  ///< while the driver maps something; locked next, and never within mutex_
  std::mutex mutex_;          ///< of the next two
  std::map<Key, std::shared_ptr<Mapping>> mappings_;
  std::map<std::pair<int, std::uint64_t>, UniqueFd> descriptors_;  ///< passed to us, not yet asked for
};

}  // namespace partita::memory::cuda
