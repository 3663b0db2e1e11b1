// Where the bytes of a schedule's regions lie: in the caller's buffers, or in slots of the collective's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collective/schedule.hpp"
#include "collective/spot.hpp"
#include "core/layout.hpp"
#include "memory/device.hpp"
#include "memory/host_blocks.hpp"

namespace partita::collective {

/// A block of a caller's buffer: the partitions' slices, one after the other.
struct Block {
  std::byte* address = nullptr;
  std::int64_t count = 0;  ///< elements of a slice
  std::shared_ptr<const Layout> layout;
  memory::Place place;
};

/// How the bytes of regions are counted.
enum class Form : std::uint8_t {
  packed,   ///< without the gaps of the datatype
  in_gaps,  ///< with them, as a reduction takes its operands; the gaps of a caller's buffer are never written
};

/// Where memory of a collective's own comes from.
struct Home {
  memory::HostBlocks& host_blocks;
  memory::DeviceMemory& device_memory;
  memory::Place place;  ///< of a GPU, or host memory

  bool is_gpu() const { return !memory::is_host(place.kind); }
};

/// Bytes that the ranks of the node can map.
class OwnBytes {
 public:
  /// Throws Error (no_mem).
  OwnBytes(const Home& home, std::size_t size_bytes);
  ~OwnBytes();
  OwnBytes(const OwnBytes&) = delete;
  OwnBytes& operator=(const OwnBytes&) = delete;

  std::byte* data() const { return data_; }

 private:
  const Home home_;
  const std::size_t size_bytes_;
  std::byte* const data_;
};

/// Has the memory of all partitions. Different threads may use different partitions at once.
class CollectiveMemory {
 public:
  /// Throws Error (no_mem).
  CollectiveMemory(const Home& home, int partitions, Form form, std::vector<Block> sent, std::vector<Block> received,
                   const std::vector<std::int64_t>& slot_bytes);
  CollectiveMemory(const CollectiveMemory&) = delete;
  CollectiveMemory& operator=(const CollectiveMemory&) = delete;

  int partitions() const { return partitions_; }
  /// Where slots lie, and memory of the legs' own.
  const Home& home() const { return home_; }
  /// Where the bytes of row() lie.
  const memory::Place& place(const Region& region) const;
  /// Whether `region` is all of a slice, so that those of neighbouring partitions follow each other: the members below
  /// take Region::times() of the first one for all of them.
  bool is_whole(const Region& region) const;
  /// The bytes of `region` of all partitions, if they lie there without gaps and in a row; else null.
  std::byte* row(const Region& region) const;
  /// Where `region` of `partition` lies, if that is without gaps; else null.
  std::byte* gapless(const Region& region, int partition) const;
  /// Where it lies in GPU memory.
  Spot spot(const Region& region, int partition) const;
  /// Where a reduction in host memory finds `region` of `partition`.
  std::byte* operand(const Region& region, int partition) const;
  /// Copies `region` of `partition` to or from bytes in a row. In host memory, like the next.
  void read(const Region& region, int partition, std::byte* bytes) const;
  void write(const Region& region, int partition, const std::byte* bytes) const;
  void copy(const Region& from, const Region& to, int partition) const;

 private:
  const Block& block(const Region& region) const;
  void add_gpu_layouts(const std::vector<Block>& blocks);
  std::int64_t unit_bytes(const Layout& layout) const;

  const Home home_;
  const int partitions_;
  const Form form_;
  const std::vector<Block> sent_;
  const std::vector<Block> received_;
  const std::vector<std::int64_t> slot_bytes_;
  std::vector<std::size_t> slot_offsets_;
  std::unique_ptr<OwnBytes> slots_;                         ///< null: there are none
  std::map<const Layout*, memory::GpuLayout> gpu_layouts_;  ///< of the blocks in GPU memory that have gaps
};

}  // namespace partita::collective
