// Where the bytes of a schedule's regions lie: in the caller's buffers, or in slots of the collective's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective/schedule.hpp"
#include "core/layout.hpp"
#include "memory/host_blocks.hpp"

namespace partita::collective {

/// A block of a caller's buffer: the partitions' slices, one after the other.
struct Block {
  std::byte* address = nullptr;
  std::int64_t count = 0;  ///< elements of a slice
  std::shared_ptr<const Layout> layout;
};

/// How the bytes of regions are counted.
enum class Form : std::uint8_t {
  packed,   ///< without the gaps of the datatype
  in_gaps,  ///< with them, as a reduction takes its operands; the gaps of a caller's buffer are never written
};

/// Of all partitions. Different threads may use different partitions at once.
class CollectiveMemory {
 public:
  /// Throws Error (no_mem).
  CollectiveMemory(memory::HostBlocks& host_blocks, int partitions, Form form, std::vector<Block> sent,
                   std::vector<Block> received, const std::vector<std::int64_t>& slot_bytes);
  ~CollectiveMemory();
  CollectiveMemory(const CollectiveMemory&) = delete;
  CollectiveMemory& operator=(const CollectiveMemory&) = delete;

  int partitions() const { return partitions_; }
  /// The bytes of `region` of all partitions, if they lie there without gaps and in a row; else null.
  std::byte* row(const Region& region) const;
  /// Where a reduction finds `region` of `partition`.
  std::byte* operand(const Region& region, int partition) const;
  /// Copies `region` of `partition` to or from bytes in a row.
  void read(const Region& region, int partition, std::byte* bytes) const;
  void write(const Region& region, int partition, const std::byte* bytes) const;
  void copy(const Region& from, const Region& to, int partition) const;

 private:
  const Block& block(const Region& region) const;
  std::byte* gapless(const Region& region, int partition) const;
  std::int64_t unit_bytes(const Layout& layout) const;

  memory::HostBlocks& host_blocks_;
  const int partitions_;
  const Form form_;
  const std::vector<Block> sent_;
  const std::vector<Block> received_;
  const std::vector<std::int64_t> slot_bytes_;
  std::vector<std::size_t> slot_offsets_;
  std::size_t slots_bytes_ = 0;
  std::byte* slots_ = nullptr;
};

/// Bytes that the ranks of the node can map.
class MappableBytes {
 public:
  MappableBytes(memory::HostBlocks& host_blocks, std::size_t size_bytes)
      : host_blocks_(host_blocks), size_bytes_(size_bytes), data_(host_blocks.allocate_block(size_bytes)) {}
  ~MappableBytes() { host_blocks_.free_block(data_, size_bytes_); }
  MappableBytes(const MappableBytes&) = delete;
  MappableBytes& operator=(const MappableBytes&) = delete;

  std::byte* data() const { return data_; }

 private:
  memory::HostBlocks& host_blocks_;
  const std::size_t size_bytes_;
  std::byte* const data_;
};

}  // namespace partita::collective
