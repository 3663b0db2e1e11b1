#include "two_sided/peer_mappings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace partita {
namespace {

/// What the driver maps at least, however small the allocation.
constexpr std::uint64_t least_mapped_bytes = std::uint64_t{2} << 20;

// What a key has: the peer, the GPU that maps it, and of the allocation the address, the size and the id.
enum : std::uint8_t { of_peer, of_device, of_address, of_size };

template <class Key>
std::uint64_t bytes_of(const Key& key) {
  return std::max(key[of_size], least_mapped_bytes);
}

template <class Key>
bool overlap(const Key& one, const Key& other) {
  return one[of_peer] == other[of_peer] && one[of_address] < other[of_address] + other[of_size] &&
         other[of_address] < one[of_address] + one[of_size];
}

std::uint64_t in_mebibytes(std::uint64_t bytes) {
  return bytes >> 20;
}

}  // namespace

PeerMappings::Key PeerMappings::key_of(int peer, const memory::DevicePiece& piece, int device) {
  return {static_cast<std::uint64_t>(peer), static_cast<std::uint64_t>(device), piece.allocation_address(),
          piece.allocation_bytes, piece.buffer_id};
}

void PeerMappings::begin_call() {
  const std::lock_guard lock(mutex_);
  ++calls_;
  std::uint64_t let_go_bytes = 0;
  for (auto& [key, mapping] : mappings_) {
    if (calls_ - mapping.last_call > calls_kept) mapping.kept = nullptr;
    if (mapping.kept == nullptr && !mapping.memory.expired()) let_go_bytes += bytes_of(key);
  }
  std::erase_if(mappings_,
                [](const auto& entry) { return entry.second.memory.expired() && entry.second.under_way == 0; });
  if (let_go_bytes > unused_bytes) device_memory_.trim(unused_bytes, memory::Closing::without_blocking);
}

/// The driver may take long to map it, for which nobody else waits here.
std::variant<std::shared_ptr<std::byte>, memory::NotMappable> PeerMappings::map(int peer,
                                                                                const memory::DevicePiece& piece,
                                                                                int device) {
  const Key key = key_of(peer, piece, device);
  std::string why_not;
  Mapping* const mapping = begin_mapping(key, peer, piece, device, &why_not);
  if (mapping == nullptr) {
    device_memory_.decline(peer, {piece});
    return memory::NotMappable{std::move(why_not)};
  }
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> imported;
  try {
    imported = device_memory_.import(peer, {piece}, device, memory::Closing::without_blocking);
  } catch (const std::exception&) {
    end_mapping(key, *mapping, nullptr, false);
    note(peer, device, true);
    throw;
  }
  const auto* const memory = std::get_if<std::shared_ptr<std::byte>>(&imported);
  const bool is_occupied = memory == nullptr && std::get<memory::NotMappable>(imported).is_occupied;
  end_mapping(key, *mapping, memory != nullptr ? *memory : nullptr, is_occupied);
  if (!is_occupied) note(peer, device, memory == nullptr);
  return imported;
}

/// Null where there is no room for it.
PeerMappings::Mapping* PeerMappings::begin_mapping(const Key& key, int peer, const memory::DevicePiece& piece,
                                                   int device, std::string* why_not) {
  const std::lock_guard lock(mutex_);
  Mapping& mapping = mappings_[key];
  // So nobody closes it meanwhile. What a request has mapped is no call's: it counts as any other.
  const auto held = mapping.memory.expired() ? nullptr : device_memory_.find_mapping(peer, {piece}, device);
  if (held == nullptr && mapping.under_way == 0) *why_not = why_no_room(key);
  if (!why_not->empty()) return nullptr;
  ++mapping.under_way;
  return &mapping;
}

void PeerMappings::end_mapping(const Key& key, Mapping& mapping, const std::shared_ptr<std::byte>& memory,
                               bool is_occupied) {
  const std::lock_guard lock(mutex_);
  --mapping.under_way;
  if (memory != nullptr) {
    mapping.memory = mapping.kept = memory;
    mapping.last_call = calls_;
  }
  if (is_occupied) let_go_of_memory_at(key);
}

void PeerMappings::note(int peer, int device, bool has_failed) {
  const std::lock_guard lock(failed_mutex_);
  int& failed = failed_[{peer, device}];
  failed = has_failed ? failed + 1 : 0;
}

/// What was passed with descriptors map() has to take. What is not kept the driver may be about to close.
std::shared_ptr<std::byte> PeerMappings::find(int peer, const memory::DevicePiece& piece, int device) {
  if (piece.way != memory::DevicePiece::Way::ipc) return nullptr;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  const auto found = mappings_.find(key_of(peer, piece, device));
  if (found == mappings_.end() || found->second.kept == nullptr) return nullptr;
  found->second.last_call = calls_;
  return found->second.kept;
}

bool PeerMappings::may_map(int peer, int device) {
  const std::lock_guard lock(failed_mutex_);
  const auto found = failed_.find({peer, device});
  return found == failed_.end() || found->second < failed_at_most;
}

std::uint64_t PeerMappings::mapped_bytes(std::uint64_t peer) const {
  std::uint64_t bytes = 0;
  for (const auto& [key, mapping] : mappings_) {
    if (key[of_peer] == peer && (mapping.under_way > 0 || !mapping.memory.expired())) bytes += bytes_of(key);
  }
  return bytes;
}

/// Empty where there is room. What nobody uses makes room only if it can be closed at once.
std::string PeerMappings::why_no_room(const Key& key) {
  const std::uint64_t gpu_bytes = device_memory_.memory_bytes(static_cast<int>(key[of_device]));
  const std::uint64_t most_bytes = std::min(mapped_at_most_bytes, gpu_bytes / mapped_at_most_part);
  const auto is_room = [&] { return mapped_bytes(key[of_peer]) + bytes_of(key) <= most_bytes; };
  if (is_room()) return {};
  device_memory_.trim(0, memory::Closing::without_blocking);
  if (is_room()) return {};
  return fmt::format("calls like this have mapped {} MiB of its memory here, and {} MiB more would be above {} MiB",
                     in_mebibytes(mapped_bytes(key[of_peer])), in_mebibytes(bytes_of(key)), in_mebibytes(most_bytes));
}

/// For whichever GPU. It stays mapped until somebody closes it.
void PeerMappings::let_go_of_memory_at(const Key& place) {
  for (auto& [key, mapping] : mappings_) {
    if (overlap(key, place)) mapping.kept = nullptr;
  }
}

void PeerMappings::let_go_of(int peer, const memory::DevicePiece& piece) {
  const std::lock_guard lock(mutex_);
  let_go_of_memory_at(key_of(peer, piece, 0));
}

}  // namespace partita
