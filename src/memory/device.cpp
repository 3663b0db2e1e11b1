#include "memory/device.hpp"

namespace partita::memory {

void DeviceMemory::add(Keeper& keeper) {
  const std::lock_guard lock(keepers_mutex_);
  keepers_.push_back(&keeper);
}

void DeviceMemory::remove(Keeper& keeper) {
  const std::lock_guard lock(keepers_mutex_);
  std::erase(keepers_, &keeper);
}

/// Whether there are any.
bool DeviceMemory::keepers_let_go_of(int peer, const DeviceExport& memory) {
  const std::lock_guard lock(keepers_mutex_);
  for (Keeper* keeper : keepers_) {
    for (const DevicePiece& piece : memory) keeper->let_go_of(peer, piece);
  }
  return !keepers_.empty();
}

}  // namespace partita::memory
