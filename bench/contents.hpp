// What the benchmarks send: bytes that tell which epoch, partition and offset they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace partita::bench {

/// The byte at `offset` of partition `partition` in epoch `epoch`: a hash of the three, so that stale data,
/// swapped partitions and shifted offsets all show.
std::byte expected_byte(std::uint64_t epoch, std::int64_t partition, std::int64_t offset);

/// Fills `data` (`partitions` equal parts) with what `epoch` sends.
void fill(std::span<std::byte> data, int partitions, std::uint64_t epoch);

/// Fills `data` with what `epoch` must not leave there: every byte differs from the expected one.
void poison(std::span<std::byte> data, int partitions, std::uint64_t epoch);

struct Mismatch {
  std::int64_t offset;  ///< from the beginning of the whole message
  int partition;
  std::byte expected;
  std::byte got;
};

/// The first byte of `data` that is not what `epoch` sends.
std::optional<Mismatch> find_mismatch(std::span<const std::byte> data, int partitions, std::uint64_t epoch);

}  // namespace partita::bench
