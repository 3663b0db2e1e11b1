#include "support/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace partita::test {
namespace {

constexpr std::int64_t block_bytes = 4096;

/// Part of a pattern in memory of its own. A sanitizer that looked at each of these bytes would take most of a test's
/// time.
struct Block {
  __attribute__((no_sanitize("address", "thread", "undefined"))) Block(std::uint64_t key, std::int64_t first,
                                                                       std::int64_t last)
      : size(std::min(block_bytes, last - first)) {
    for (std::int64_t i = 0; i < size; ++i) bytes[i] = pattern(key, first + i);
  }
  std::int64_t size;
  std::uint8_t bytes[block_bytes];
};

}  // namespace

void write_pattern(void* bytes, std::uint64_t key, std::int64_t first, std::int64_t last) {
  auto* to = static_cast<std::uint8_t*>(bytes);
  while (first < last) {
    const Block block(key, first, last);
    std::memcpy(to, block.bytes, static_cast<std::size_t>(block.size));
    to += block.size;
    first += block.size;
  }
}

std::int64_t first_off_pattern(const void* bytes, std::uint64_t key, std::int64_t first, std::int64_t last) {
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  while (first < last) {
    const Block block(key, first, last);
    if (std::memcmp(from, block.bytes, static_cast<std::size_t>(block.size)) != 0) {
      return first + (std::mismatch(from, from + block.size, block.bytes).first - from);
    }
    from += block.size;
    first += block.size;
  }
  return last;
}

}  // namespace partita::test
