#include "apps/life/life.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "apps/life/board.hpp"
#include "apps/life/options.hpp"
#include "apps/life/picture.hpp"
#include "apps/life/record.hpp"
#include "apps/life/report.hpp"
#include "apps/support/collect.hpp"
#include "apps/support/console.hpp"
#include "apps/support/memory.hpp"
#include "apps/support/order.hpp"
#include "apps/support/rank_values.hpp"
#include "apps/support/threads.hpp"

namespace life {
namespace {

using partita::apps::Check;
using partita::apps::decide_on_rank_0;
using partita::apps::Division;
using partita::apps::fail;
using partita::apps::in_drawn_order;
using partita::apps::say;

constexpr int picture_pixels = 1024;
constexpr int warm_up_generations = 20;
constexpr int fewest_cells = 1;  // of a block, each way: the halo of one that narrow has the same cells on both sides

Division divide(const Options& options, int ranks) {
  std::array<int, 2> dims{options.rank_rows, options.rank_columns};
  if (dims[0] == 0) MPI_Dims_create(ranks, 2, dims.data());
  return {options.game.rows, options.game.columns, dims[0], dims[1]};
}

/// The bytes that the cells take in this rank's host memory: those of its block; on rank 0 the whole board's, too, if
/// it is wanted.
std::int64_t bytes_of_cells(const Options& options, const Division& division, int rank) {
  const partita::apps::Block block = partita::apps::block_of(division, rank);
  std::int64_t cells = (options.gpu ? 1 : 2) * partita::apps::size_of(block.rows, block.columns);
  if (options.gpu && !options.verify && !options.picture) cells = 0;
  if (rank == 0 && (options.verify || options.picture)) cells += std::int64_t{division.rows} * division.columns;
  if (rank == 0 && options.verify) cells += 2 * partita::apps::size_of(division.rows, division.columns);
  return cells * std::int64_t{sizeof(Cell)};
}

/// A sentence if a rank cannot have the memory for its cells. Collective; the same on every rank.
std::optional<std::string> problem_with_memory(const Options& options, const Division& division) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::int64_t refused = partita::apps::bytes_refused(bytes_of_cells(options, division, rank), MPI_COMM_WORLD);
  if (refused == 0) return std::nullopt;
  std::string problem =
      fmt::format("{} x {} cells (--size) on {} ranks need {} bytes on one rank, which the system does not give it",
                  division.rows, division.columns, division.ranks(), refused);
  if (options.verify || options.picture) problem += "; --no-verify with --no-picture keeps the whole board off rank 0";
  return problem;
}

std::string describe(const Board& board, const Options& options) {
  const Division& division = board.division();
  std::string text =
      fmt::format("the Game of Life on {} x {} cells, {}, {} of a hundred alive at the start, {} ranks ({} x {})\n",
                  division.rows, division.columns, options.game.boundary == Boundary::periodic ? "periodic" : "bounded",
                  options.game.density, division.ranks(), division.rank_rows, division.rank_columns);
  const std::vector<Edge> edges = edges_of(board.shape());
  if (edges.empty() || options.gpu) return text;  // GPUs mark whole edges
  text += "halos of rank 0:";
  for (const auto& [name, message] : edges)
    text += fmt::format(" {} {} cells in {} partitions;", name, message.cells, message.partitions);
  text.back() = '\n';
  return text;
}

/// Everything that the runs leave behind on rank 0.
struct Results {
  std::map<std::string, std::vector<Result>> runs;  ///< by mode
  std::vector<Cell> board;                          ///< the whole one after the last run
  bool all_passed = true;
};

/// Compares the whole board with the one that rank 0 plays alone. Collective; the same verdict on every rank.
bool verify(const Board& board, const std::vector<Cell>& whole, OneRank& one_rank, int generations) {
  return decide_on_rank_0(board.comm(), [&] {
    const auto found = difference(board.division(), whole, one_rank.after(generations));
    if (found) fmt::print(stderr, "life: wrong result: {}.\n", *found);
    return !found;
  });
}

void run_mode(Board& board, const Options& options, const std::string& mode, OneRank& one_rank, Results& results) {
  const Outcome outcome = board.play(mode, options.generations);
  Result result = summarise(board, mode, outcome);
  if (options.verify || options.picture) results.board = board.gather();
  if (options.verify) {
    const bool passed = verify(board, results.board, one_rank, options.generations);
    result.check = passed ? Check::passed : Check::failed;
    results.all_passed = results.all_passed && passed;
  }
  say(fmt::format("  {}\n", describe(result)));
  results.runs[result.mode].push_back(std::move(result));
}

std::vector<Result> median_runs(const Options& options, const Results& results) {
  std::vector<Result> medians;
  medians.reserve(options.modes.size());
  for (const std::string& mode : options.modes) medians.push_back(partita::apps::median_run(results.runs.at(mode)));
  return medians;
}

/// Writes the files on rank 0; false on every rank if that fails.
bool write_files(const partita::apps::Origin& origin, const Board& board, const Options& options,
                 const Results& results) {
  return partita::apps::write_on_rank_0(board.comm(), "life", [&] {
    if (options.picture) {
      const std::string path = options.output + ".png";
      write_png(draw(results.board, options.game.rows, options.game.columns, picture_pixels), path);
      say(fmt::format("wrote {}\n", path));
    }
    if (options.json) {
      const std::string path = options.output + ".json";
      write_record(origin, board, options, results.runs, path);
      say(fmt::format("wrote {}\n", path));
    }
  });
}

/// Leaves out modes that cannot run here, where all were asked for; false on every rank where none is left.
bool keep_possible_modes(const Board& board, Options& options) {
  std::vector<std::string> possible;
  for (const std::string& mode : options.modes) {
    const auto problem = board.problem_with(mode);
    if (!problem) {
      possible.push_back(mode);
    } else if (options.all_modes) {
      say(fmt::format("left out: {}\n", *problem));
    } else {
      fail(2, fmt::format("life: {}.\n", *problem));
    }
  }
  options.modes = possible;
  return !possible.empty();
}

int run_modes(Board& board, const Options& options) {
  partita::apps::Origin origin = partita::apps::begin_app_origin(options.json, board.comm(), options.gpu);
  // Connections and first touches are not what the modes differ in.
  for (const std::string& mode : options.modes) board.play(mode, std::min(warm_up_generations, options.generations));
  OneRank one_rank(options.verify && board.rank() == 0 ? options.game : Game{});
  Results results;
  for (int repeat = 0; repeat < options.repeat; ++repeat) {
    for (const std::string& mode :
         in_drawn_order(options.modes, options.order_seed, static_cast<std::uint64_t>(repeat))) {
      run_mode(board, options, mode, one_rank, results);
    }
  }
  end_origin(origin);
  say(fmt::format("\n{}\n", comparison_table(median_runs(options, results))));
  const bool written = write_files(origin, board, options, results);
  return results.all_passed && written ? 0 : 1;
}

}  // namespace

int command(int argc, char** argv) {
  const auto read = read_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&read)) return partita::apps::end(*exit);
  Options options = std::get<Options>(read);

  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Division division = divide(options, ranks);
  std::optional<std::string> problem = problem_with(division, ranks, fewest_cells);
  if (!problem) problem = problem_with_memory(options, division);
  if (!problem && options.gpu) problem = gpu::Player::choose_device(MPI_COMM_WORLD);
  if (problem) return fail(2, fmt::format("life: {}.\n", *problem));
  Board board(MPI_COMM_WORLD, division, options.game, options.partitions);
  if (options.gpu) board.move_to_gpu();
  say(describe(board, options) +
      (options.gpu ? board.describe_device() + "\n" : partita::apps::oversubscription_note(board.comm(), 1)));
  if (!keep_possible_modes(board, options)) return 2;
  return run_modes(board, options);
}

}  // namespace life
