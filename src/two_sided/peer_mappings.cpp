#include "two_sided/peer_mappings.hpp"

#include <algorithm>
#include <utility>

namespace partita {
namespace {

/// What the driver maps at least, however small the allocation.
constexpr std::uint64_t least_mapped_bytes = std::uint64_t{2} << 20;

// What a key has: the peer, the GPU that maps it, and of the allocation the address, the size and the id.
enum : std::uint8_t { of_peer, of_device, of_address, of_size };

std::uint64_t bytes_of(const PeerMappings::Key& key) {
  return std::max(key[of_size], least_mapped_bytes);
}

bool overlap(const PeerMappings::Key& one, const PeerMappings::Key& other) {
  return one[of_peer] == other[of_peer] && one[of_address] < other[of_address] + other[of_size] &&
         other[of_address] < one[of_address] + one[of_size];
}

}  // namespace

std::variant<PeerMappings::Mapped, memory::NotMappable> PeerMappings::map(int peer, const memory::DevicePiece& piece,
                                                                          int device) {
  const Key key{static_cast<std::uint64_t>(peer), static_cast<std::uint64_t>(device),
                piece.address - piece.offset_bytes, piece.allocation_bytes, piece.buffer_id};
  auto mapping = device_memory_.import(peer, {piece}, device, memory::Closing::without_blocking);
  if (auto* const memory = std::get_if<std::shared_ptr<std::byte>>(&mapping)) return Mapped{key, std::move(*memory)};
  auto& not_mappable = std::get<memory::NotMappable>(mapping);
  if (not_mappable.is_occupied) forget_peers_memory(key);
  return std::move(not_mappable);
}

void PeerMappings::forget_peers_memory(const Key& at_its_place) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const auto& entry) {
    if (!overlap(entry.first, at_its_place)) return false;
    kept_bytes_ -= bytes_of(entry.first);
    return true;
  });
}

void PeerMappings::keep(std::vector<Mapped> used) {
  if (used.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    ++calls_;
    for (Mapped& mapped : used) {
      const auto [entry, is_new] = kept_.try_emplace(mapped.key);
      if (is_new) kept_bytes_ += bytes_of(mapped.key);
      entry->second = {std::move(mapped.memory), calls_};
    }
    if (!let_go_of_old()) return;
  }
  is_full_ = true;
  static_cast<void>(have_room());
}

/// Whether there was some. The caller holds the lock.
bool PeerMappings::let_go_of_old() {
  const std::size_t before = kept_.size();
  for (;;) {
    const auto oldest = std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.last_call; });
    const std::uint64_t age = calls_ - oldest->second.last_call;
    const bool is_much = kept_.size() > mappings_kept || kept_bytes_ > bytes_kept;
    if (age < calls_kept && (age == 0 || !is_much)) return kept_.size() < before;
    kept_bytes_ -= bytes_of(oldest->first);
    kept_.erase(oldest);
  }
}

/// Asked anew while there is none: requests that end close what they find.
bool PeerMappings::have_room() {
  if (!is_full_) return true;
  is_full_ = device_memory_.trim(unclosed_at_most_bytes, memory::Closing::without_blocking) > unclosed_at_most_bytes;
  return !is_full_;
}

}  // namespace partita
