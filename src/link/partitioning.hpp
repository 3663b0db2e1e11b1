// How the packed bytes of one side of a transfer are divided into partitions.
#pragma once

#include <partita/device/impl/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace partita::link {

using device::Range;

/// Partitions of one size, or each of a size of its own, which may be 0. Cheap to copy.
class Partitioning {
 public:
  /// More partitions of sizes of their own there are not: they travel in one message.
  static constexpr std::size_t most_sizes = std::size_t{1} << 24;

  /// One partition of no bytes.
  Partitioning() = default;
  /// `count` partitions, at least 1, of one size: `total_bytes` divides by `count`.
  Partitioning(std::int32_t count, std::int64_t total_bytes)
      : count_(count), total_bytes_(total_bytes), partition_bytes_(total_bytes / count) {}
  /// Partitions of these sizes. Throws Error unless they are 1 to most_sizes, from 0 each, and less than 2^63 together.
  explicit Partitioning(std::span<const std::int64_t> sizes_bytes);

  std::int32_t count() const { return count_; }
  std::int64_t total_bytes() const { return total_bytes_; }
  /// Whether all have one size.
  bool even() const { return offsets_ == nullptr; }
  /// That size; even.
  std::int64_t partition_bytes() const { return partition_bytes_; }
  /// The bytes of neighbours.
  Range bytes(Range partitions) const {
    if (offsets_ != nullptr) [[unlikely]]
      return {offset(partitions.begin), offset(partitions.end)};
    return {partitions.begin * partition_bytes_, partitions.end * partition_bytes_};
  }
  /// The partition that holds the byte at `position`, which there is.
  std::int64_t partition_at(std::int64_t position) const;

  friend bool operator==(const Partitioning& a, const Partitioning& b);

 private:
  std::int64_t offset(std::int64_t partition) const { return (*offsets_)[static_cast<std::size_t>(partition)]; }

  std::int32_t count_ = 1;
  std::int64_t total_bytes_ = 0;
  std::int64_t partition_bytes_ = 0;
  /// Unless they are even: the sum of the sizes before each partition, and of all.
  std::shared_ptr<const std::vector<std::int64_t>> offsets_;
};

}  // namespace partita::link
