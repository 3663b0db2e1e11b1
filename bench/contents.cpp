#include "bench/contents.hpp"

#include "bench/content_hash.hpp"

namespace partita::bench {

namespace {

/// Calls `visit(byte index, partition, expected byte)` for each byte until it returns false.
template <class Visit>
void for_each_byte(std::size_t size_bytes, int partitions, std::uint64_t epoch, Visit visit) {
  const std::size_t part_bytes = size_bytes / static_cast<std::size_t>(partitions);
  for (int partition = 0; partition < partitions; ++partition) {
    for (std::size_t offset = 0; offset < part_bytes; ++offset) {
      const std::byte expected = expected_byte(epoch, partition, static_cast<std::int64_t>(offset));
      if (!visit(static_cast<std::size_t>(partition) * part_bytes + offset, partition, expected)) return;
    }
  }
}

}  // namespace

std::byte expected_byte(std::uint64_t epoch, std::int64_t partition, std::int64_t offset) {
  return static_cast<std::byte>(
      content_byte(mix(epoch), static_cast<std::uint64_t>(partition), static_cast<std::uint64_t>(offset)));
}

void fill(std::span<std::byte> data, int partitions, std::uint64_t epoch) {
  for_each_byte(data.size(), partitions, epoch, [&](std::size_t at, int, std::byte expected) {
    data[at] = expected;
    return true;
  });
}

void poison(std::span<std::byte> data, int partitions, std::uint64_t epoch) {
  for_each_byte(data.size(), partitions, epoch, [&](std::size_t at, int, std::byte expected) {
    data[at] = ~expected;
    return true;
  });
}

std::optional<Mismatch> find_mismatch(std::span<const std::byte> data, int partitions, std::uint64_t epoch) {
  std::optional<Mismatch> found;
  for_each_byte(data.size(), partitions, epoch, [&](std::size_t at, int partition, std::byte expected) {
    if (data[at] != expected) found = Mismatch{static_cast<std::int64_t>(at), partition, expected, data[at]};
    return !found.has_value();
  });
  return found;
}

}  // namespace partita::bench
