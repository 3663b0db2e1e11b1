#include "apps/cg/cg.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <map>
#include <optional>

#include "apps/cg/gpu/device.hpp"
#include "apps/cg/options.hpp"
#include "apps/cg/record.hpp"
#include "apps/cg/report.hpp"
#include "apps/support/collect.hpp"
#include "apps/support/console.hpp"
#include "apps/support/job.hpp"
#include "apps/support/memory.hpp"
#include "apps/support/order.hpp"
#include "apps/support/threads.hpp"

namespace cg {
namespace {

using partita::apps::decide_on_rank_0;
using partita::apps::fail;
using partita::apps::in_drawn_order;
using partita::apps::Job;
using partita::apps::say;

/// A sentence if a rank has no row, more points than kernels count, or no memory for its vectors. Collective; the same
/// on every rank.
std::optional<std::string> problem_with(const Options& options, const Job& job) {
  const Problem& problem = options.problem;
  if (problem.rows < job.ranks()) {
    return fmt::format("{} rows (--size) are fewer than the {} ranks: each has one at least", problem.rows,
                       job.ranks());
  }
  const std::int64_t rows_each = (problem.rows + job.ranks() - 1) / job.ranks();
  constexpr std::int64_t most_points = 1 << 30;  // an MPI of ints counts the vectors' points
  if (rows_each * problem.columns > most_points) {
    return fmt::format("{} x {} points (--size) are more than {} on each of {} ranks", problem.rows, problem.columns,
                       most_points, job.ranks());
  }
  std::int64_t doubles = size_of(share_of(job.comm(), problem).rows, problem.columns);
  const std::int64_t whole = std::int64_t{problem.rows} * problem.columns;
  if (options.verify && job.rank() == 0) doubles += size_of(problem.rows, problem.columns) + 3 * whole;
  const std::int64_t refused = partita::apps::bytes_refused(doubles * std::int64_t{sizeof(double)}, job.comm());
  if (refused == 0) return std::nullopt;
  return fmt::format(
      "{} x {} points (--size) on {} ranks need {} bytes on one rank, which the system does not give it{}",
      problem.rows, problem.columns, job.ranks(), refused,
      options.verify ? "; with --no-verify rank 0 does not hold the whole grid" : "");
}

std::string describe(const Options& options, const Job& job, const Machine& machine) {
  const Problem& problem = options.problem;
  return fmt::format(
      "conjugate gradients on {} x {} points, to a residual of {:.0e}, {} iterations between two looks at it; "
      "{} ranks, {}\n",
      problem.rows, problem.columns, options.limits.tolerance, options.limits.batch, job.ranks(), machine.describe());
}

/// What solutions are compared with, on rank 0, which finds the first of the two at the first question.
class Expected {
 public:
  explicit Expected(const Options& options) : options_(options) {}

  const std::vector<double>& of_one_rank() {
    if (of_one_rank_.empty()) of_one_rank_ = run_alone(options_.problem, options_.limits).solution;
    return of_one_rank_;
  }
  const std::vector<double>& known() {
    if (known_.empty()) known_ = known_solution(options_.problem);
    return known_;
  }

 private:
  const Options& options_;
  std::vector<double> of_one_rank_, known_;
};

/// Collective; the same verdict on every rank.
bool verify(const Job& job, const Options& options, const Outcome& outcome, Expected& expected, Result& result) {
  const Problem& problem = options.problem;
  std::vector<double> whole;
  if (job.rank() == 0) {
    whole.resize(static_cast<std::size_t>(problem.rows) * static_cast<std::size_t>(problem.columns));
  }
  partita::apps::gather_blocks(job.comm(), divide(problem, job.ranks()), outcome.solution.data(), problem.columns,
                               MPI_DOUBLE, whole.data());
  return decide_on_rank_0(job.comm(), [&] {
    result.checked = true;
    result.from_one_rank = difference(whole, expected.of_one_rank());
    result.from_known = difference(whole, expected.known());
    if (!result.right()) fail(1, fmt::format("cg: {}.\n", complaint(result)));
    return result.right();
  });
}

/// Takes the modes that cannot run here out of `options` and says why; false if none is left.
bool keep_possible_modes(const Machine& machine, Options& options) {
  std::vector<std::string> possible;
  for (const std::string& mode : options.modes) {
    const auto problem = machine.problem_with(mode);
    if (!problem) {
      possible.push_back(mode);
    } else if (options.all_modes) {
      say(fmt::format("left out: {}\n", *problem));
    } else {
      fail(2, fmt::format("cg: {}.\n", *problem));
    }
  }
  options.modes = possible;
  return !possible.empty();
}

/// Writes the file on rank 0; false on every rank if that fails.
bool write_file(const Job& job, const partita::apps::Origin& origin, const Machine& machine, const Options& options,
                const std::map<std::string, std::vector<Result>>& runs) {
  return !options.json || partita::apps::write_on_rank_0(job.comm(), "cg", [&] {
    const std::string path = options.output + ".json";
    write_record(origin, job.comm(), machine.describe(), options, runs, path);
    say(fmt::format("wrote {}\n", path));
  });
}

int run_modes(const Job& job, Machine& machine, const Options& options) {
  partita::apps::Origin origin = partita::apps::begin_app_origin(options.json, job.comm(), options.gpu);
  const Share share = share_of(job.comm(), options.problem);
  // Connections and first touches are not what the modes differ in.
  Limits warm_up = options.limits;
  warm_up.iterations = 1;  // one batch
  for (const std::string& mode : options.modes) run(machine, share, mode, warm_up);
  Expected expected(options);
  std::map<std::string, std::vector<Result>> runs;
  bool all_right = true;
  for (int repeat = 0; repeat < options.repeat; ++repeat) {
    for (const std::string& mode :
         in_drawn_order(options.modes, options.order_seed, static_cast<std::uint64_t>(repeat))) {
      const Outcome outcome = run(machine, share, mode, options.limits);
      Result result = summarise(job.comm(), mode, outcome);
      if (options.verify) all_right = verify(job, options, outcome, expected, result) && all_right;
      say(fmt::format("  {}\n", describe(result)));
      runs[mode].push_back(std::move(result));
    }
  }
  end_origin(origin);
  std::vector<std::vector<Result>> in_order;
  in_order.reserve(options.modes.size());
  for (const std::string& mode : options.modes) in_order.push_back(runs.at(mode));
  say(fmt::format("\n{}\n", comparison_table(in_order)));
  const bool written = write_file(job, origin, machine, options, runs);
  return all_right && written ? 0 : 1;
}

}  // namespace

int command(int argc, char** argv) {
  const auto read = read_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&read)) return partita::apps::end(*exit);
  Options options = std::get<Options>(read);
  const Job job;
  std::optional<std::string> problem = problem_with(options, job);
  if (!problem && options.gpu) problem = gpu::choose_device(job.comm());
  if (problem) return fail(2, fmt::format("cg: {}.\n", *problem));

  const Share share = share_of(job.comm(), options.problem);
  const std::unique_ptr<Machine> machine = options.gpu ? gpu::make_device(share, options.sums) : make_host(share);
  say(describe(options, job, *machine) + (options.gpu ? "" : partita::apps::oversubscription_note(job.comm(), 1)));
  if (!keep_possible_modes(*machine, options)) return 2;
  return run_modes(job, *machine, options);
}

}  // namespace cg
