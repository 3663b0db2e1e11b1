#include "memory/cuda/imports.hpp"

#include <algorithm>

#include "memory/cuda/check.hpp"
#include "memory/cuda/pointer.hpp"

namespace partita::memory::cuda {
namespace {

using Way = DevicePiece::Way;

/// What the driver maps at least, however small the allocation.
constexpr std::uint64_t least_kept_bytes = std::uint64_t{2} << 20;

/// Keeps the whole mapping.
std::shared_ptr<std::byte> piece_of(const std::shared_ptr<Mapping>& mapping, const DeviceExport& pieces) {
  return {mapping, mapping->base() + pieces.front().offset_bytes};
}

/// What came in a message: several pieces are all descriptors, and each lies in its allocation.
bool sound(const DeviceExport& pieces) {
  if (pieces.empty()) return false;
  return std::all_of(pieces.begin(), pieces.end(), [&](const DevicePiece& piece) {
    if (pieces.size() > 1 && piece.way != Way::file_descriptor) return false;
    return piece.way == Way::same_process || (piece.offset_bytes <= piece.allocation_bytes &&
                                              piece.size_bytes <= piece.allocation_bytes - piece.offset_bytes);
  });
}

}  // namespace

Imports::Key Imports::key_of(int peer, const DeviceExport& pieces, int device) {
  Key key{static_cast<std::uint64_t>(peer), static_cast<std::uint64_t>(device)};
  for (const DevicePiece& piece : pieces) {
    key.insert(key.end(), {piece.allocation_address(), piece.allocation_bytes, piece.buffer_id});
  }
  return key;
}

std::uint64_t Imports::size_bytes_of(const Key& key) {
  std::uint64_t size_bytes = 0;
  for (std::size_t size_at = 3; size_at < key.size(); size_at += 3) size_bytes += key[size_at];
  return size_bytes;
}

bool Imports::collide(const Key& one, const Key& other) {
  if (one[0] != other[0]) return false;
  for (std::size_t of_one = 2; of_one < one.size(); of_one += 3) {
    for (std::size_t of_other = 2; of_other < other.size(); of_other += 3) {
      if (std::equal(&one[of_one], &one[of_one] + 3, &other[of_other])) continue;  // for another GPU
      if (one[of_one] < other[of_other] + other[of_other + 1] && other[of_other] < one[of_one] + one[of_one + 1]) {
        return true;
      }
    }
  }
  return false;
}

Imported Imports::import(int peer, const DeviceExport& pieces, int device, Closing closing) {
  if (!sound(pieces)) throw Error(ErrorClass::internal, "rank {} named GPU memory in a way that makes no sense", peer);
  if (pieces.front().way == Way::same_process) {
    if (peer != world_.rank()) throw wire::malformed("of rank {} names GPU memory as if of this process", peer);
    return own(pieces.front(), device);
  }
  Imported imported = import_now(peer, pieces, device);
  const auto* const not_mappable = std::get_if<NotMappable>(&imported);
  if (not_mappable == nullptr || !not_mappable->is_occupied) return imported;
  const Key place = key_of(peer, pieces, device);
  close_unused(closing, [&](const Key& key) { return collide(key, place); });
  // What is in the way may be what another thread is closing: then it is gone.
  closing_mutex_.lock();
  closing_mutex_.unlock();
  return import_now(peer, pieces, device);
}

/// Closes nothing. The driver may take long to map it: whoever uses what is mapped already does not wait for that.
Imported Imports::import_now(int peer, const DeviceExport& pieces, int device) {
  const Key key = key_of(peer, pieces, device);
  std::vector<UniqueFd> descriptors;
  {
    const std::lock_guard lock(mutex_);
    descriptors = descriptors_of(peer, pieces);
    if (auto found = piece_at(key, pieces)) return found;
  }
  const std::lock_guard mapping_lock(mapping_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (auto found = piece_at(key, pieces)) return found;  // by another thread
    check_are_there(peer, pieces, descriptors);
  }
  Mapped mapped = map(pieces, descriptors, device);
  if (auto* reason = std::get_if<NotMappable>(&mapped)) return std::move(*reason);
  const std::lock_guard lock(mutex_);
  if (std::holds_alternative<AlreadyMapped>(mapped)) {
    return NotMappable{
        "memory that the peer has freed since is still mapped at its place: free requests before "
        "their buffers",
        true, is_unused_at(key)};
  }
  return piece_of(mappings_.emplace(key, std::get<0>(std::move(mapped))).first->second, pieces);
}

/// Under mutex_, as close_unused() counts who holds a mapping. Null where none is there.
std::shared_ptr<std::byte> Imports::piece_at(const Key& key, const DeviceExport& pieces) const {
  const auto found = mappings_.find(key);
  return found == mappings_.end() ? nullptr : piece_of(found->second, pieces);
}

void Imports::check_are_there(int peer, const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors) {
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (descriptors[i].get() >= 0) continue;
    const auto why = world_.socket().why_lost(DescriptorKind::device_memory, peer, pieces[i].segment);
    if (!why.empty()) {
      throw Error(ErrorClass::other, "GPU memory {} of rank {} is lost: {}", pieces[i].segment, peer, why);
    }
    throw Error(ErrorClass::internal,
                "rank {} named its GPU memory {}, whose descriptor is not there: it was not "
                "passed, or has been mapped and trimmed",
                peer, pieces[i].segment);
  }
}

std::shared_ptr<std::byte> Imports::find_mapping(int peer, const DeviceExport& pieces, int device) {
  const std::lock_guard lock(mutex_);
  return piece_at(key_of(peer, pieces, device), pieces);
}

void Imports::decline(int peer, const DeviceExport& pieces) {
  if (!sound(pieces)) throw Error(ErrorClass::internal, "rank {} named GPU memory in a way that makes no sense", peer);
  const std::lock_guard lock(mutex_);
  static_cast<void>(descriptors_of(peer, pieces));
}

Imported Imports::own(const DevicePiece& piece, int device) {
  auto* address = reinterpret_cast<std::byte*>(piece.address);
  const Allocation allocation = allocation_of(address);
  if (allocation.place.kind == Kind::device && allocation.place.device != device) {
    const InContext in_context(contexts_.of(device));
    const CUresult result = driver().cuCtxEnablePeerAccess(contexts_.of(allocation.place.device), 0);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
      return NotMappable{fmt::format("GPU {} cannot use memory of GPU {}: {}", device, allocation.place.device,
                                     text_of(driver(), result))};
    }
    // Memory from pools and what was mapped by hand opens to a GPU only by a call of its owner.
    std::uint64_t access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    if (!allocation.ipc_capable) {
      PARTITA_CU(cuPointerGetAttribute, &access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, device_address(address));
    }
    if (access != CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE) {
      return NotMappable{fmt::format("the program has not given GPU {} access to this memory of GPU {}", device,
                                     allocation.place.device)};
    }
  }
  return std::shared_ptr<std::byte>(address, [](std::byte*) {});
}

std::vector<UniqueFd> Imports::descriptors_of(int peer, const DeviceExport& pieces) {
  std::vector<UniqueFd> descriptors;
  if (pieces.front().way != Way::file_descriptor) return descriptors;
  world_.socket().receive(DescriptorKind::device_memory, [this](PassedDescriptor passed) {
    descriptors_[{passed.from, passed.segment}] = std::move(passed.fd);
  });
  for (const DevicePiece& piece : pieces) {
    auto passed = descriptors_.extract({peer, piece.segment});
    descriptors.push_back(passed.empty() ? UniqueFd() : std::move(passed.mapped()));
  }
  return descriptors;
}

Mapped Imports::map(const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors, int device) {
  const CUcontext context = contexts_.of(device);
  if (pieces.front().way == Way::file_descriptor) return map_by_descriptors(pieces, descriptors, device, context);
  return map_by_ipc(pieces.front(), device, context);
}

int Imports::device_for(const void* address) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, mapping] : mappings_) {
    const std::uint64_t size_bytes = size_bytes_of(key);
    const auto* byte = static_cast<const std::byte*>(address);
    if (byte >= mapping->base() && byte < mapping->base() + size_bytes) return static_cast<int>(key[1]);
  }
  return -1;
}

std::uint64_t Imports::trim(std::size_t allowed_bytes, Closing closing) {
  if (const std::uint64_t bytes = unused_bytes(); bytes <= allowed_bytes) return bytes;
  close_unused(closing, [](const Key&) { return true; });
  return unused_bytes();
}

std::uint64_t Imports::unused_bytes() {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [key, mapping] : mappings_) {
    if (mapping.use_count() == 1) bytes += std::max(size_bytes_of(key), least_kept_bytes);
  }
  return bytes;
}

/// Whether mappings are in the way of one of `place`, and nobody holds one of these. Under mutex_.
bool Imports::is_unused_at(const Key& place) const {
  bool is_unused = false;
  for (const auto& [key, mapping] : mappings_) {
    if (!collide(key, place)) continue;
    if (mapping.use_count() > 1) return false;
    is_unused = true;
  }
  return is_unused;
}

/// The driver may take long to close one, so that it goes without mutex_. Who wants it again meanwhile finds it in the
/// way, and waits for closing_mutex_.
template <class IsMeant>
void Imports::close_unused(Closing closing, IsMeant is_meant) {
  std::unique_lock closing_lock(closing_mutex_, std::defer_lock);
  if (closing == Closing::all) closing_lock.lock();
  std::vector<std::shared_ptr<Mapping>> closed;  // goes behind the lock of mutex_, before the other
  const std::lock_guard lock(mutex_);
  closed.reserve(mappings_.size());
  for (auto entry = mappings_.begin(); entry != mappings_.end();) {
    const auto next = std::next(entry);
    const std::shared_ptr<Mapping>& mapping = entry->second;
    if (mapping.use_count() == 1 && (closing == Closing::all || !mapping->blocks()) && is_meant(entry->first)) {
      closed.push_back(std::move(mappings_.extract(entry).mapped()));
    }
    entry = next;
  }
}

}  // namespace partita::memory::cuda
