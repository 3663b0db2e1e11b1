// Host memory: what of it the other ranks of the node can map, and theirs that we have mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/world.hpp"
#include "memory/host_address.hpp"
#include "memory/memory.hpp"

namespace partita::memory {

/// Exported memory lives in anonymous shared-memory files. Their descriptors travel over the node's sockets, so nothing
/// is left behind when a process dies. A peer's segment is mapped once, and unmapped after its owner freed it.
/// Any thread may call.
class HostMemory {
 public:
  explicit HostMemory(World& world) : world_(world) {}
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// A segment of its own: page-aligned, zeroed. Throws Error (no_mem).
  std::byte* allocate_segment(std::size_t size_bytes);
  /// Frees it; returns the ranks that may have it mapped, and its name there. Throws Error (arg) on another address.
  struct Freed {
    std::uint64_t segment = 0;
    std::vector<int> holders;
  };
  Freed free_segment(void* base);
  bool is_segment(const void* base) const;

  /// A small piece of a shared segment: flags, slots. Aligned to cache lines, zeroed.
  std::byte* allocate_block(std::size_t size_bytes);
  void free_block(std::byte* block, std::size_t size_bytes);

  /// host_exported where [address, address + size_bytes) lies in one exported segment, else host.
  Kind kind_of(const void* address, std::size_t size_bytes) const;
  /// Makes exported memory mappable for `peer`, which may be this rank, and names it. Throws Error if it is not
  /// exported.
  HostAddress export_to(int peer, const void* address);
  /// The mapping of the `size_bytes` that `peer` named; valid until `peer` frees the segment. Throws Error, also where
  /// they do not lie in the segment.
  std::byte* import(int peer, HostAddress address, std::size_t size_bytes);
  /// `peer` has freed `segment`.
  void forget(int peer, std::uint64_t segment);

  /// A whole segment as this process maps it.
  struct Range {
    std::byte* base = nullptr;
    std::size_t size_bytes = 0;
  };
  /// The segment that holds the byte at `address`, ours or a peer's.
  std::optional<Range> segment_of(const void* address) const;
  /// `hook` is called with the base of every segment before it is unmapped, but for those that live to the end of this
  /// object. It must not call back. An empty one takes the last away.
  void before_unmapping(std::function<void(std::byte*)> hook);

 private:
  struct Segment {
    std::byte* base = nullptr;
    std::size_t size_bytes = 0;
    UniqueFd fd;
    FileName file;
    std::uint64_t name = 0;
    std::set<int> holders;
  };
  using Segments = std::map<const std::byte*, Segment>;

  std::byte* create_segment(std::size_t size_bytes);
  Segments::const_iterator containing(const void* address, std::size_t size_bytes) const;
  std::optional<Range> named_by(int peer, const HostAddress& address);
  void map_file_of(int peer, const HostAddress& address);
  void take_in_descriptors();
  void unmap(std::byte* base, std::size_t size_bytes);

  World& world_;
  mutable std::mutex mutex_;
  Segments segments_;  ///< ours, by base address
  std::uint64_t next_name_ = 1;
  std::map<std::size_t, std::vector<std::byte*>> free_blocks_;  ///< by rounded size
  std::byte* pool_next_ = nullptr;                              ///< unused rest of the newest pool segment
  std::byte* pool_end_ = nullptr;
  std::map<std::pair<int, std::uint64_t>, Range> mapped_;  ///< theirs
  std::function<void(std::byte*)> before_unmapping_;
};

}  // namespace partita::memory
