#include "apps/life/board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "apps/life/frame.hpp"
#include "apps/life/modes.hpp"
#include "apps/support/collect.hpp"
#include "apps/support/progress.hpp"

namespace life {
namespace {

using partita::apps::Division;
using partita::apps::Progress;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// The row, or column, of ranks one step away from `index` of `count`; nothing beyond the rim.
std::optional<int> beside(int index, int step, int count, Boundary boundary) {
  const int next = index + step;
  if (boundary == Boundary::periodic) return (next + count) % count;
  return next < 0 || next >= count ? std::nullopt : std::optional(next);
}

partita::halo_way way_named(std::string_view mode) {
  const auto* const found = std::ranges::find(host_modes, mode, &HostMode::name);
  if (found == host_modes.end()) throw std::logic_error(fmt::format("life: there is no mode {} in host memory.", mode));
  return found->way;
}

}  // namespace

partita::halo_neighbours<2> neighbours_of(const Division& division, int rank, Boundary boundary) {
  partita::halo_neighbours<2> neighbours{};
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    const auto [down, across] = partita::halo_offset_of<2>(i);
    const auto row = beside(rank / division.rank_columns, down, division.rank_rows, boundary);
    const auto column = beside(rank % division.rank_columns, across, division.rank_columns, boundary);
    neighbours[i] = row && column ? *row * division.rank_columns + *column : MPI_PROC_NULL;
  }
  return neighbours;
}

std::vector<Edge> edges_of(const partita::halo_shape& shape) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < partita::halo_directions<2>; ++i) {
    const auto [down, across] = partita::halo_offset_of<2>(i);
    if ((down != 0 && across != 0) || shape.neighbours[i] == MPI_PROC_NULL) continue;
    const std::string_view name = down != 0 ? (down < 0 ? "north" : "south") : (across < 0 ? "west" : "east");
    edges.push_back({name, extent_of(shape, i)});
  }
  return edges;
}

Board::Board(MPI_Comm world, const Division& division, const Game& game, int wanted_partitions)
    : division_(division), game_(game) {
  MPI_Comm_dup(world, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  block_ = partita::apps::block_of(division_, rank_);
  shape_ = {block_.rows, block_.columns, neighbours_of(division_, rank_, game_.boundary), wanted_partitions};
}

Board::~Board() {
  MPI_Comm_free(&comm_);
}

void Board::move_to_gpu() {
  player_ = std::make_unique<gpu::Player>(comm_, shape_);
}

std::optional<std::string> Board::problem_with(std::string_view mode) const {
  return player_ != nullptr ? player_->problem_with(mode) : std::nullopt;
}

Outcome Board::play(std::string_view mode, int generations) {
  return player_ != nullptr ? player_->play(mode, game_, block_, generations) : play_on_host(mode, generations);
}

Field Board::field(std::size_t which) const {
  const auto cells = static_cast<std::size_t>(partita::apps::size_of(block_.rows, block_.columns));
  if (memory_[which] == nullptr)
    memory_[which] = std::make_unique<partita::apps::ReachableMemory>(cells * sizeof(Cell));
  return partita::apps::framed_in(static_cast<Cell*>(memory_[which]->get()), block_.rows, block_.columns);
}

Outcome Board::play_on_host(std::string_view mode, int generations) {
  const std::array fields{field(0), field(1)};
  for (const Field& each : fields) fill(each, block_, game_);
  current_ = 0;
  Outcome outcome;
  MPI_Barrier(comm_);
  const auto before = Clock::now();
  partita::framed_halo halo(comm_, shape_, {frame_of(fields[0]), frame_of(fields[1])}, way_named(mode));
  outcome.setup_s = seconds(Clock::now() - before);

  Progress progress(rank_ == 0);
  MPI_Barrier(comm_);
  const auto begin = Clock::now();
  Clock::duration halo_time{0};
  for (; outcome.generations < generations; ++outcome.generations) {
    const auto exchange_begin = Clock::now();
    halo.exchange(frame_of(fields[current_]));
    halo_time += Clock::now() - exchange_begin;
    next_generation(fields[current_], fields[1 - current_]);
    current_ = 1 - current_;
    if (progress.due()) Progress::say(mode, fmt::format("generation {} of {}", outcome.generations, generations));
  }
  MPI_Barrier(comm_);
  outcome.time_s = seconds(Clock::now() - begin);
  outcome.halo_s = seconds(halo_time);
  return outcome;
}

std::vector<Cell> Board::gather() const {
  std::vector<Cell> whole;
  if (rank_ == 0) whole.resize(static_cast<std::size_t>(game_.rows) * static_cast<std::size_t>(game_.columns));
  const Field last = field(player_ != nullptr ? 0 : current_);
  if (player_ != nullptr) player_->copy_last(last);
  partita::apps::gather_blocks(comm_, division_, &last.at(1, 1), last.stride, MPI_UINT64_T, whole.data());
  return whole;
}

}  // namespace life
