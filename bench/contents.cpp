#include "bench/contents.hpp"

namespace partita::bench {

namespace {

/// The finaliser of the SplitMix64 generator: every input bit changes about half of the output bits.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

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
  const std::uint64_t place = (static_cast<std::uint64_t>(partition) << 40) ^ static_cast<std::uint64_t>(offset);
  return static_cast<std::byte>(mix(place ^ mix(epoch)) >> 56);
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
