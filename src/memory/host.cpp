#include "memory/host.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace partita::memory {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr std::size_t pool_segment_bytes = std::size_t{4} << 20;
constexpr std::size_t largest_arena_bytes = std::size_t{1} << 30;
/// Below, the system call costs more than the memory is worth.
constexpr std::size_t give_back_bytes = 16 * 1024;

std::size_t rounded_up(std::size_t size_bytes, std::size_t multiple) {
  return (size_bytes + multiple - 1) / multiple * multiple;
}

/// Blocks come in powers of two, so that freed ones fit again.
std::size_t block_class(std::size_t size_bytes) {
  return std::bit_ceil(std::max(size_bytes, line_bytes));
}

std::byte* map_shared(int fd, std::size_t size_bytes, const char* whose) {
  void* base = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    throw Error(ErrorClass::no_mem, "cannot map {} bytes of {} shared memory: {}", size_bytes, whose,
                std::strerror(errno));
  }
  return static_cast<std::byte*>(base);
}

}  // namespace

HostMemory::~HostMemory() {
  for (auto& [base, segment] : segments_) {
    if (!segment.is_left) ::munmap(segment.base, segment.size_bytes);
  }
  for (auto& [name, mapped] : mapped_) ::munmap(mapped.base, mapped.size_bytes);
}

HostMemory::Segment& HostMemory::create_segment(std::size_t size_bytes) {
  size_bytes = rounded_up(std::max<std::size_t>(size_bytes, 1), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  UniqueFd fd(::memfd_create("partita", MFD_CLOEXEC));
  if (fd.get() < 0 || ::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    throw Error(ErrorClass::no_mem, "cannot create {} bytes of shared memory: {}", size_bytes, std::strerror(errno));
  }
  std::byte* base = map_shared(fd.get(), size_bytes, "own");
  const FileName file = file_name_of(fd.get());
  Segment segment;
  segment.base = base;
  segment.size_bytes = size_bytes;
  segment.fd = std::move(fd);
  segment.file = file;
  segment.name = next_name_++;
  return segments_.emplace(base, std::move(segment)).first->second;
}

/// The segments that allocations share grow with what is allocated, so that there are a handful of them. Pages that
/// nobody has touched take no memory.
std::byte* HostMemory::allocate(std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (size_bytes > own_segment_bytes) {
    Segment& segment = create_segment(size_bytes);
    segment.of_program = true;
    return segment.base;
  }
  for (auto& [base, segment] : segments_) {
    if (segment.arena == nullptr) continue;
    if (const auto offset = segment.arena->allocate(size_bytes)) return segment.base + *offset;
  }
  Segment& segment = create_segment(std::max(arena_bytes_, rounded_up(size_bytes, Arena::page_bytes)));
  segment.of_program = true;
  segment.arena = std::make_unique<Arena>(segment.size_bytes);
  arena_bytes_ = std::min(arena_bytes_ * 2, largest_arena_bytes);
  const auto offset = segment.arena->allocate(size_bytes);
  if (!offset) {
    throw Error(ErrorClass::internal, "a new segment of {} bytes has no room for {}", segment.size_bytes, size_bytes);
  }
  return segment.base + *offset;
}

HostMemory::Segment* HostMemory::allocated_in(const void* base) {
  const auto found = containing(base, 1);
  if (found == segments_.end()) return nullptr;
  Segment& segment = segments_.at(found->first);
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(base) - segment.base);
  const bool is_one = segment.arena != nullptr ? segment.arena->allocated_at(offset) > 0 : offset == 0;
  return segment.of_program && is_one ? &segment : nullptr;
}

HostMemory::Freed HostMemory::free(void* base) {
  const std::lock_guard lock(mutex_);
  Segment* segment = allocated_in(base);
  if (segment == nullptr) {
    throw Error(ErrorClass::arg, "argument base is {}, which Partita did not allocate or has freed already", base);
  }
  if (segment->arena != nullptr) {
    auto* first = static_cast<std::byte*>(base);
    const auto offset = static_cast<std::size_t>(first - segment->base);
    const std::size_t size_bytes = segment->arena->allocated_at(offset);
    segment->arena->free(offset);
    const bool last_arena = segment->size_bytes == first_arena_bytes;  // kept for the next one
    if (!segment->arena->empty() || last_arena) {
      if (!give_back(first, size_bytes)) std::memset(first, 0, size_bytes);
      return {};
    }
    arena_bytes_ = std::max(first_arena_bytes, arena_bytes_ / 2);
  }
  return drop(segments_.find(segment->base));
}

HostMemory::Freed HostMemory::drop(Segments::iterator segment) {
  Freed freed{segment->second.name, {segment->second.holders.begin(), segment->second.holders.end()}};
  unmap(segment->second.base, segment->second.size_bytes);
  segments_.erase(segment);
  return freed;
}

bool HostMemory::is_allocated(const void* base) const {
  const std::lock_guard lock(mutex_);
  return const_cast<HostMemory*>(this)->allocated_in(base) != nullptr;
}

/// Gives the pages of [first, first + size_bytes) back to the system, which leaves zeros, also for those who have
/// mapped them. False where it is not worth it, or would part a GPU from them.
bool HostMemory::give_back(std::byte* first, std::size_t size_bytes) {
  if (size_bytes < give_back_bytes) return false;
  const auto found = containing(first, size_bytes);
  if (found == segments_.end() || found->second.registered) return false;
  return ::fallocate(found->second.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(first - found->second.base), static_cast<off_t>(size_bytes)) == 0;
}

std::byte* HostMemory::allocate_block(std::size_t size_bytes) {
  const std::size_t size = block_class(size_bytes);
  const std::lock_guard lock(mutex_);
  BlocksOfASize& alike = blocks_[size];
  if (!alike.free.empty()) {
    std::byte* block = alike.free.back();
    alike.free.pop_back();
    // Again where it costs nothing: the rank that had it mapped may have failed, and written late.
    std::memset(block, 0, std::min(size_bytes, give_back_bytes));
    return block;
  }
  // Destructors free blocks, which must not fail for want of memory: so there is room for this one from now on.
  if (alike.made == alike.free.capacity()) alike.free.reserve(2 * alike.made + 1);
  std::byte* const block = new_block(size);
  ++alike.made;
  return block;
}

std::byte* HostMemory::new_block(std::size_t size) {
  if (size > pool_segment_bytes / 4) return create_segment(size).base;
  if (static_cast<std::size_t>(pool_end_ - pool_next_) < size) {
    pool_next_ = create_segment(pool_segment_bytes).base;
    pool_end_ = pool_next_ + pool_segment_bytes;
  }
  std::byte* const block = pool_next_;
  pool_next_ += size;
  return block;
}

/// Zeroed here and not when it is taken again: what is given back is zero already.
void HostMemory::leave_block(std::byte* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto above = segments_.upper_bound(block);
  if (above != segments_.begin()) std::prev(above)->second.is_left = true;
}

void HostMemory::free_block(std::byte* block, std::size_t size_bytes) {
  const std::size_t size = block_class(size_bytes);
  const std::lock_guard lock(mutex_);
  if (!give_back(block, size)) std::memset(block, 0, size_bytes);
  blocks_[size].free.push_back(block);
}

HostMemory::Segments::const_iterator HostMemory::containing(const void* address, std::size_t size_bytes) const {
  const auto* first = static_cast<const std::byte*>(address);
  auto after = segments_.upper_bound(first);
  if (after == segments_.begin()) return segments_.end();
  const auto candidate = std::prev(after);
  const Segment& segment = candidate->second;
  const auto offset = static_cast<std::size_t>(first - segment.base);
  return offset <= segment.size_bytes && size_bytes <= segment.size_bytes - offset ? candidate : segments_.end();
}

Kind HostMemory::kind_of(const void* address, std::size_t size_bytes) const {
  const std::lock_guard lock(mutex_);
  return containing(address, size_bytes) == segments_.end() ? Kind::host : Kind::host_exported;
}

HostAddress HostMemory::export_to(int peer, const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = containing(address, 0);
  if (found == segments_.end()) throw Error(ErrorClass::internal, "{} is not exported memory", address);
  Segment& segment = segments_.at(found->first);
  if (peer != world_.rank() && !segment.holders.contains(peer)) {
    // Before the peer is a holder: where this fails, the next request on the segment tries again.
    if (!world_.opens_our_files(peer))
      world_.socket().pass(peer, DescriptorKind::host_segment, segment.name, segment.size_bytes, segment.fd.get());
    segment.holders.insert(peer);
  }
  const auto offset_bytes = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - segment.base);
  return {segment.name, offset_bytes, world_.opens_our_files(peer) ? segment.file : FileName{}};
}

HostAddress HostMemory::export_to_gpu_of(int peer, const void* address) {
  const HostAddress named = export_to(peer, address);
  register_segment_of(address);
  return named;
}

void HostMemory::take_in_descriptors() {
  world_.socket().receive(DescriptorKind::host_segment, [this](PassedDescriptor passed) {
    const auto size = static_cast<std::size_t>(passed.size_bytes);
    mapped_[{passed.from, passed.segment}] = {map_shared(passed.fd.get(), size, "a peer's"), size};
  });
}

std::byte* HostMemory::import(int peer, HostAddress address, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto range = named_by(peer, address)) {
    if (address.offset_bytes <= range->size_bytes && size_bytes <= range->size_bytes - address.offset_bytes) {
      return range->base + address.offset_bytes;
    }
    throw wire::malformed("of rank {} names {} bytes at {} of its memory segment {}, which has {}", peer, size_bytes,
                          address.offset_bytes, address.segment, range->size_bytes);
  }
  if (const auto why = world_.socket().why_lost(DescriptorKind::host_segment, peer, address.segment); !why.empty()) {
    throw Error(ErrorClass::other, "memory segment {} of rank {} is lost: {}", address.segment, peer, why);
  }
  throw Error(
      ErrorClass::internal,
      "rank {} named its memory segment {}, which it did not pass or has freed: free requests before their buffers",
      peer, address.segment);
}

std::optional<HostMemory::Range> HostMemory::named_by(int peer, const HostAddress& address) {
  if (peer == world_.rank()) {
    for (const auto& [base, own] : segments_) {
      if (own.name == address.segment) return Range{own.base, own.size_bytes};
    }
    return std::nullopt;
  }
  auto found = mapped_.find({peer, address.segment});
  if (found == mapped_.end() && address.file.number >= 0 && world_.on_my_node(peer)) {
    map_file_of(peer, address);
    found = mapped_.find({peer, address.segment});
  } else if (found == mapped_.end()) {
    take_in_descriptors();
    found = mapped_.find({peer, address.segment});
  }
  return found == mapped_.end() ? std::nullopt : std::optional(found->second);
}

void HostMemory::map_file_of(int peer, const HostAddress& address) {
  const UniqueFd fd = open_file_of(world_.process_of(peer), address.file);
  struct stat found{};
  if (fd.get() < 0 && errno == EMFILE) {
    throw Error(ErrorClass::other, "cannot open memory segment {} of rank {}: {} (ulimit -n)", address.segment, peer,
                std::strerror(errno));
  }
  if (fd.get() < 0 || ::fstat(fd.get(), &found) != 0 || found.st_size <= 0) return;
  const auto size = static_cast<std::size_t>(found.st_size);
  mapped_[{peer, address.segment}] = {map_shared(fd.get(), size, "a peer's"), size};
}

void HostMemory::forget(int peer, std::uint64_t segment) {
  const std::lock_guard lock(mutex_);
  take_in_descriptors();
  const auto found = mapped_.find({peer, segment});
  if (found == mapped_.end()) return;
  unmap(found->second.base, found->second.size_bytes);
  mapped_.erase(found);
}

void HostMemory::unmap(std::byte* base, std::size_t size_bytes) {
  if (before_unmapping_) before_unmapping_(base);
  ::munmap(base, size_bytes);
}

std::optional<HostMemory::Range> HostMemory::segment_of(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto own = containing(address, 1);
  if (own != segments_.end()) return Range{own->second.base, own->second.size_bytes};
  const auto* byte = static_cast<const std::byte*>(address);
  for (const auto& [name, range] : mapped_) {
    if (range.base <= byte && byte < range.base + range.size_bytes) return range;
  }
  return std::nullopt;
}

std::optional<HostMemory::Range> HostMemory::register_segment_of(const void* address) {
  const auto range = segment_of(address);
  if (!range) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (const auto own = segments_.find(range->base); own != segments_.end()) own->second.registered = true;
  return range;
}

void HostMemory::before_unmapping(std::function<void(std::byte*)> hook) {
  const std::lock_guard lock(mutex_);
  before_unmapping_ = std::move(hook);
}

}  // namespace partita::memory
