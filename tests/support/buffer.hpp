// A message buffer with a layout, whose gaps and surroundings are watched.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/layout.hpp"
#include "support/memory.hpp"

namespace partita::test {

class Buffer {
 public:
  /// Room for `count` elements of `layout`, all bytes untouched.
  Buffer(TypedLayout layout, std::int64_t count, Memory memory);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const TypedLayout& layout() const { return layout_; }
  std::int64_t count() const { return count_; }
  /// Bytes without the gaps.
  std::int64_t packed_bytes() const { return count_ * layout_.size_bytes(); }
  /// What a call takes as `buf`.
  void* address() { return bytes_.address() + origin_; }

  /// Writes the pattern of `key` to packed bytes [first, last). Where bytes of the layout overlap, the last one wins.
  void write_pattern(std::uint64_t key, std::int64_t first, std::int64_t last);
  /// The value of packed byte `position`.
  std::uint8_t at(std::int64_t position) const {
    const std::int64_t place = origin_ + layout_.offset_of(position);
    return bytes_.read(place, place + 1, [](const std::uint8_t* byte) { return *byte; });
  }
  /// Whether packed bytes [first, last) hold the pattern of `key`; says where not.
  testing::AssertionResult holds_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) const;
  /// Packed bytes [0, packed_bytes()).
  std::vector<std::uint8_t> packed() const;
  /// Whether packed bytes [first, last) are those of `expected`, which holds all; says where not.
  testing::AssertionResult holds(const std::vector<std::uint8_t>& expected, std::int64_t first,
                                 std::int64_t last) const;
  /// Makes everything untouched again, gaps and data.
  void reset();
  /// Whether no byte outside the layout was written.
  testing::AssertionResult gaps_untouched() const;

 private:
  static constexpr std::int64_t guard_bytes = 64;

  /// Calls `use(p, place, n)` for packed bytes [first, last) in pieces: `n` from `p` on lie from byte `place` of the
  /// memory on. Ends when `use` returns false.
  template <class Use>
  void for_each_run(std::int64_t first, std::int64_t last, const Use& use) const;
  std::pair<std::int64_t, std::int64_t> hull(std::int64_t first, std::int64_t last) const;
  /// Calls `use(bytes, p, n)` for packed bytes [first, last) in pieces, where the host can read them. Ends when `use`
  /// returns false.
  template <class Use>
  void read_runs(std::int64_t first, std::int64_t last, const Use& use) const;
  void find_gaps();
  testing::AssertionResult differs(std::int64_t position, int expected) const;

  TypedLayout layout_;
  std::int64_t count_;
  Bytes bytes_;
  std::int64_t origin_ = 0;                                  ///< of the memory: what the buffer's address points to
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps_;  ///< [first, last) of the memory, outside the layout
};

}  // namespace partita::test
