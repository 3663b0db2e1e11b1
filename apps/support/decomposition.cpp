#include "apps/support/decomposition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace partita::apps {
namespace {

struct Run {
  int first = 0, length = 0;
};

Run run_of(int length, int parts, int part) {
  const int each = length / parts;
  const int left = length % parts;
  return {part * each + std::min(part, left), each + (part < left ? 1 : 0)};
}

int part_of(int length, int parts, int index) {
  const int each = length / parts;
  const int left = length % parts;
  const int in_longer_parts = left * (each + 1);
  return index < in_longer_parts ? index / (each + 1) : left + (index - in_longer_parts) / each;
}

}  // namespace

Block block_at(const Division& division, int rank_row, int rank_column) {
  const Run rows = run_of(division.rows, division.rank_rows, rank_row);
  const Run columns = run_of(division.columns, division.rank_columns, rank_column);
  return {rows.first, columns.first, rows.length, columns.length};
}

Block block_of(const Division& division, int rank) {
  return block_at(division, rank / division.rank_columns, rank % division.rank_columns);
}

int owner_of(const Division& division, int row, int column) {
  return part_of(division.rows, division.rank_rows, row) * division.rank_columns +
         part_of(division.columns, division.rank_columns, column);
}

std::optional<std::string> problem_with(const Division& division, int ranks, int fewest_cells) {
  if (static_cast<std::int64_t>(division.rank_rows) * division.rank_columns != ranks) {
    return fmt::format("a grid of {} x {} ranks (--ranks) needs {} ranks, but the job has {}", division.rank_rows,
                       division.rank_columns, static_cast<std::int64_t>(division.rank_rows) * division.rank_columns,
                       ranks);
  }
  if (division.rows / division.rank_rows < fewest_cells || division.columns / division.rank_columns < fewest_cells) {
    return fmt::format(
        "{} x {} cells (--size) are too few for {} x {} ranks (--ranks): each rank needs at least {} x {} cells",
        division.rows, division.columns, division.rank_rows, division.rank_columns, fewest_cells, fewest_cells);
  }
  return std::nullopt;
}

int partitions_for(int length, int wanted) {
  const auto is_nearer = [wanted](std::int64_t divisor, std::int64_t best) {
    const std::int64_t target = wanted;
    // Compares the ratios larger/smaller of divisor and target with those of best and target, cross-multiplied.
    const std::int64_t left = std::max(divisor, target) * std::min(best, target);
    const std::int64_t right = std::max(best, target) * std::min(divisor, target);
    return left < right || (left == right && divisor < best);
  };
  std::int64_t best = length;
  for (std::int64_t small = 1; small * small <= length; ++small) {
    if (length % small != 0) continue;
    for (const std::int64_t divisor : {small, length / small}) {
      if (is_nearer(divisor, best)) best = divisor;
    }
  }
  return static_cast<int>(best);
}

}  // namespace partita::apps
