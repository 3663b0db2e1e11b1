// The bytes that tests send: every one tells which data it belongs to and where it lies in them.
#pragma once

#include <cstdint>

namespace partita::test {

/// The byte at `position` of the packed data that stream `key` carries; differs between keys and epochs.
__attribute__((no_sanitize("address", "thread", "undefined"))) inline std::uint8_t pattern(std::uint64_t key,
                                                                                           std::int64_t position) {
  std::uint64_t x = key * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(position) * 0xbf58476d1ce4e5b9U;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebU;
  return static_cast<std::uint8_t>(x >> 56);
}

/// Writes positions [first, last) of `key` to `bytes`, one after another. Sanitizers see one write of each block.
void write_pattern(void* bytes, std::uint64_t key, std::int64_t first, std::int64_t last);

/// The first of the positions [first, last) whose byte differs, when they lie one after another at `bytes`; `last` if
/// none does. Sanitizers see one read of each block.
std::int64_t first_off_pattern(const void* bytes, std::uint64_t key, std::int64_t first, std::int64_t last);

}  // namespace partita::test
