#include "apps/life/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/life/first_generation.hpp"
#include "apps/support/progress.hpp"

namespace life {
namespace {

using partita::apps::Progress;

/// Fills the frame of a whole board from its own cells.
void wrap_around(const Field& field) {
  const auto wrapped = [](int index, int count) { return index == 0 ? count : index == count + 1 ? 1 : index; };
  for (int row = 0; row <= field.rows + 1; ++row) {
    const bool in_frame = row == 0 || row == field.rows + 1;
    for (int column = 0; column <= field.columns + 1; column += in_frame ? 1 : field.columns + 1) {
      field.at(row, column) = field.at(wrapped(row, field.rows), wrapped(column, field.columns));
    }
  }
}

const Field& field_after(const Field (&fields)[2], int generations) {
  return fields[generations % 2];
}

}  // namespace

void fill(const Field& field, const partita::apps::Block& block, const Game& game) {
  for (int row = 0; row <= field.rows + 1; ++row) std::fill_n(field.row(row), field.columns + 2, Cell{0});
  for (int row = 1; row <= field.rows; ++row) {
    for (int column = 1; column <= field.columns; ++column) {
      const bool lives =
          lives_at_start(game.seed, game.density, block.first_row + row - 1, block.first_column + column - 1);
      field.at(row, column) = lives ? 1 : 0;
    }
  }
}

void next_generation(const Field& from, const Field& to) {
  for (int row = 1; row <= from.rows; ++row) {
    const Cell *above = from.row(row - 1), *here = from.row(row), *below = from.row(row + 1);
    Cell* const next = to.row(row);
    for (int column = 1; column <= from.columns; ++column) {
      const Cell neighbours = above[column - 1] + above[column] + above[column + 1] + here[column - 1] +
                              here[column + 1] + below[column - 1] + below[column] + below[column + 1];
      next[column] = static_cast<Cell>((neighbours | here[column]) == 3);  // three, or two and itself
    }
  }
}

OneRank::OneRank(const Game& game) : game_(game) {
  const std::ptrdiff_t size = partita::apps::size_of(game.rows, game.columns);
  memory_.resize(2 * static_cast<std::size_t>(size));
  fields_[0] = partita::apps::framed_in(memory_.data(), game.rows, game.columns);
  fields_[1] = partita::apps::framed_in(memory_.data() + size, game.rows, game.columns);
  restart();
}

void OneRank::restart() {
  for (const Field& field : fields_) fill(field, {0, 0, game_.rows, game_.columns}, game_);
  generation_ = 0;
}

const Field& OneRank::after(int generations) {
  if (generations < generation_) restart();
  Progress progress(true);
  for (; generation_ < generations; ++generation_) {
    const Field& from = field_after(fields_, generation_);
    if (game_.boundary == Boundary::periodic) wrap_around(from);
    next_generation(from, field_after(fields_, generation_ + 1));
    if (progress.due())
      Progress::say("check", fmt::format("generation {} of {} on one rank", generation_, generations));
  }
  return field_after(fields_, generation_);
}

}  // namespace life
