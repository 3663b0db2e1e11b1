// How one segment is divided among allocations of any sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace partita::memory {

/// Offsets and sizes only: it touches no memory. Freed neighbours merge. Not synchronised.
class Arena {
 public:
  /// `size_bytes` is a multiple of `line_bytes`.
  explicit Arena(std::size_t size_bytes) { free_.emplace(0, size_bytes); }

  static constexpr std::size_t line_bytes = 64;

  static constexpr std::size_t page_bytes = 4096;

  /// The first place where `size_bytes` fit, at a multiple of `line_bytes`, or of `page_bytes` for a page and more;
  /// none where they fit nowhere.
  std::optional<std::size_t> allocate(std::size_t size_bytes) {
    const std::size_t unit = size_bytes < page_bytes ? line_bytes : page_bytes;
    const std::size_t size = rounded(std::max<std::size_t>(size_bytes, 1), unit);
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [begin, room] = *range;
      const std::size_t offset = rounded(begin, unit);
      if (offset - begin > room || room - (offset - begin) < size) continue;
      const std::size_t left_before = offset - begin, left_behind = room - left_before - size;
      // What may fail for want of memory comes first.
      const auto used = used_.emplace(offset, size).first;
      try {
        if (left_before > 0 && left_behind > 0) free_.emplace(offset + size, left_behind);
      } catch (...) {
        used_.erase(used);
        throw;
      }
      if (left_before > 0) {
        range->second = left_before;
      } else {
        auto piece = free_.extract(range);
        if (left_behind > 0) {
          piece.key() = offset + size;
          piece.mapped() = left_behind;
          free_.insert(std::move(piece));
        }
      }
      return offset;
    }
    return std::nullopt;
  }
  /// The size that was allocated at `offset`, rounded up; 0 where nothing was.
  std::size_t allocated_at(std::size_t offset) const {
    const auto found = used_.find(offset);
    return found == used_.end() ? 0 : found->second;
  }
  /// Takes no memory.
  void free(std::size_t offset) {
    auto piece = used_.extract(offset);
    if (piece.empty()) return;
    const auto place = free_.insert(std::move(piece)).position;
    if (const auto after = std::next(place); after != free_.end() && place->first + place->second == after->first) {
      place->second += after->second;
      free_.erase(after);
    }
    if (place == free_.begin()) return;
    const auto before = std::prev(place);
    if (before->first + before->second != place->first) return;
    before->second += place->second;
    free_.erase(place);
  }
  bool empty() const { return used_.empty(); }
  /// Pieces that are free; 1 where all is.
  std::size_t free_ranges() const { return free_.size(); }

 private:
  static std::size_t rounded(std::size_t size_bytes, std::size_t unit) { return (size_bytes + unit - 1) / unit * unit; }

  std::map<std::size_t, std::size_t> free_;  ///< sizes by offset
  std::map<std::size_t, std::size_t> used_;
};

}  // namespace partita::memory
