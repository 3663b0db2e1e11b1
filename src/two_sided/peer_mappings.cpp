#include "two_sided/peer_mappings.hpp"

#include <utility>

namespace partita {

std::variant<std::shared_ptr<std::byte>, memory::NotMappable> PeerMappings::map(int peer,
                                                                                const memory::DevicePiece& piece,
                                                                                int device) {
  auto mapping = device_memory_.import(peer, {piece}, device);
  if (std::holds_alternative<std::shared_ptr<std::byte>>(mapping)) return mapping;
  // Memory that the peer has freed may be in the way.
  {
    const std::lock_guard lock(mutex_);
    if (recent_.empty()) return mapping;
    recent_.clear();
  }
  return device_memory_.import(peer, {piece}, device);
}

bool PeerMappings::keep(Held used) {
  if (used.empty()) return false;
  const std::lock_guard lock(mutex_);
  recent_.push_back(std::move(used));
  if (recent_.size() <= calls_kept) return false;
  recent_.pop_front();
  return true;
}

}  // namespace partita
