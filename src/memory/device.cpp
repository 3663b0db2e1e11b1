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

std::variant<std::shared_ptr<std::byte>, NotMappable> DeviceMemory::import(int peer, const DeviceExport& memory,
                                                                           int device, Clearing clearing) {
  auto imported = import(peer, memory, device, Closing::without_blocking);
  const auto* const not_mappable = std::get_if<NotMappable>(&imported);
  if (not_mappable == nullptr || !not_mappable->is_occupied) return imported;
  keepers_let_go_of(peer, memory);
  if (clearing == Clearing::if_quiet && closing_() != Closing::all) return imported;
  return import(peer, memory, device, Closing::all);
}

void DeviceMemory::keepers_let_go_of(int peer, const DeviceExport& memory) {
  const std::lock_guard lock(keepers_mutex_);
  for (Keeper* keeper : keepers_) {
    for (const DevicePiece& piece : memory) keeper->let_go_of(peer, piece);
  }
}

}  // namespace partita::memory
