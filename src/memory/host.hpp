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
#include "memory/arena.hpp"
#include "memory/host_address.hpp"
#include "memory/host_blocks.hpp"
#include "memory/memory.hpp"

namespace partita::memory {

/// Exported memory lives in anonymous shared-memory files. Their descriptors travel over the node's sockets, so nothing
/// is left behind when a process dies. A peer's segment is mapped once, and unmapped after its owner freed it.
/// Any thread may call.
class HostMemory final : public HostBlocks {
 public:
  explicit HostMemory(World& world) : world_(world) {}
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// Memory for the program, zeroed: a piece of a segment that allocations share, aligned to cache lines or, from a
  /// page on, to pages; above `own_segment_bytes` a segment of its own. Throws Error (no_mem).
  std::byte* allocate(std::size_t size_bytes);
  static constexpr std::size_t own_segment_bytes = std::size_t{64} << 20;
  /// Frees it. Where that was the last of its segment the segment goes: the ranks that may have it mapped, and its name
  /// there. Throws Error (arg) on another address.
  struct Freed {
    std::uint64_t segment = 0;
    std::vector<int> holders;
  };
  Freed free(void* base);
  bool is_allocated(const void* base) const;

  std::byte* allocate_block(std::size_t size_bytes) override;
  void free_block(std::byte* block, std::size_t size_bytes) override;
  void leave_block(std::byte* block) noexcept override;
  Kind kind_of(const void* address, std::size_t size_bytes) const override;
  /// Makes exported memory mappable for `peer`, which may be this rank, and names it. Throws Error if it is not
  /// exported.
  HostAddress export_to(int peer, const void* address);
  /// Exports to a `peer` that may register the segment with a GPU: its pages stay what they are from here on, or the
  /// GPU would write to those that were given back.
  HostAddress export_to_gpu_of(int peer, const void* address);
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
  /// The same; its pages stay what they are from here on, since the caller registers them with a GPU.
  std::optional<Range> register_segment_of(const void* address);
  /// `hook` is called with the base of every segment before it is unmapped, but for those that live to the end of this
  /// object. It must not call back. An empty one takes the last away.
  void before_unmapping(std::function<void(std::byte*)> hook);

 private:
  static constexpr std::size_t first_arena_bytes = std::size_t{4} << 20;

  struct Segment {
    std::byte* base = nullptr;
    std::size_t size_bytes = 0;
    UniqueFd fd;
    FileName file;
    std::uint64_t name = 0;
    std::set<int> holders;
    std::unique_ptr<Arena> arena;  ///< of one that allocations of the program share
    bool of_program = false;       ///< else it holds blocks
    bool registered = false;       ///< with a GPU, ours or a peer's, which then has its pages
    bool is_left = false;          ///< a block of it was: it stays mapped
  };
  using Segments = std::map<const std::byte*, Segment>;

  Segment& create_segment(std::size_t size_bytes);
  std::byte* new_block(std::size_t size);
  Segment* allocated_in(const void* base);
  Freed drop(Segments::iterator segment);
  bool give_back(std::byte* first, std::size_t size_bytes);
  Segments::const_iterator containing(const void* address, std::size_t size_bytes) const;
  std::optional<Range> named_by(int peer, const HostAddress& address);
  void map_file_of(int peer, const HostAddress& address);
  void take_in_descriptors();
  void unmap(std::byte* base, std::size_t size_bytes);

  World& world_;
  mutable std::mutex mutex_;
  Segments segments_;  ///< ours, by base address
  std::uint64_t next_name_ = 1;
  std::size_t arena_bytes_ = first_arena_bytes;  ///< of the next segment that allocations share
  struct BlocksOfASize {
    std::size_t made = 0;
    std::vector<std::byte*> free;  ///< has room for all that were made
  };
  std::map<std::size_t, BlocksOfASize> blocks_;  ///< by rounded size
  std::byte* pool_next_ = nullptr;               ///< unused rest of the newest pool segment
  std::byte* pool_end_ = nullptr;
  std::map<std::pair<int, std::uint64_t>, Range> mapped_;  ///< theirs
  std::function<void(std::byte*)> before_unmapping_;
};

}  // namespace partita::memory
