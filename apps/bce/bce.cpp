#include "apps/bce/bce.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "apps/bce/options.hpp"
#include "apps/bce/record.hpp"
#include "apps/bce/report.hpp"
#include "apps/support/collect.hpp"
#include "apps/support/console.hpp"
#include "apps/support/decomposition.hpp"
#include "apps/support/memory.hpp"
#include "apps/support/order.hpp"
#include "apps/support/rank_values.hpp"
#include "apps/support/threads.hpp"

namespace bce {
namespace {

using partita::apps::Check;
using partita::apps::fail;
using partita::apps::in_drawn_order;
using partita::apps::say;

constexpr int warm_up_steps = 5;

/// A sentence if a rank has no sample, or no memory for its samples. Collective; the same on every rank.
std::optional<std::string> problem_with(const Options& options, MPI_Comm comm) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const Problem& problem = options.problem;
  if (problem.samples < ranks) {
    return fmt::format("{} samples (--samples) are fewer than the {} ranks: each has one at least", problem.samples,
                       ranks);
  }
  std::int64_t held = samples_of(problem, rank, ranks).count;
  if (options.verify && rank == 0) held += problem.samples;
  const std::int64_t refused = partita::apps::bytes_refused(held * (problem.features + 2) * 8, comm);
  if (refused == 0) return std::nullopt;
  return fmt::format(
      "{} samples of {} numbers (--samples, --features) on {} ranks need {} bytes on one rank, which the system does "
      "not give it{}",
      problem.samples, problem.features, ranks, refused,
      options.verify ? "; with --no-verify rank 0 does not hold the whole set" : "");
}

std::string describe(const Training& training, const Options& options) {
  const Problem& problem = training.problem();
  return fmt::format(
      "binary cross-entropy on {} samples of {} numbers, {} steps at rate {}; {} ranks with {} {} each, the gradient "
      "of {} bytes in {} {}\n",
      problem.samples, problem.features, options.steps, problem.rate, training.ranks(), training.threads(),
      training.threads() == 1 ? "thread" : "threads", 8 * std::int64_t{problem.features}, training.parts(),
      training.parts() == 1 ? "partition" : "partitions");
}

/// The weights that one rank trains on the whole set, on every rank. Rank 0 trains them at the first question, and the
/// others leave the machine to it meanwhile.
class Expected {
 public:
  Expected(const Training& training, int steps) : training_(training), steps_(steps) {}

  const std::vector<double>& weights() {
    if (!weights_.empty()) return weights_;
    weights_.resize(static_cast<std::size_t>(training_.problem().features));
    if (training_.rank() == 0) weights_ = train_alone(training_.problem(), steps_, training_.threads()).weights;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(weights_.data(), static_cast<int>(weights_.size()), MPI_DOUBLE, 0, training_.comm(), &request);
    partita::apps::wait_asleep(request);
    return weights_;
  }

 private:
  const Training& training_;
  int steps_;
  std::vector<double> weights_;
};

/// Compares every rank's weights with one rank's, and the loss before with that after. Collective; the same verdict on
/// every rank.
void verify(const Training& training, const Outcome& outcome, Expected& expected, Result& result) {
  double off = difference(outcome.weights, expected.weights());
  // MPI_MAX need not keep what is no number.
  if (!(off <= std::numeric_limits<double>::max())) off = std::numeric_limits<double>::infinity();
  MPI_Allreduce(&off, &result.difference, 1, MPI_DOUBLE, MPI_MAX, training.comm());
  const bool same = result.difference <= weight_tolerance;
  const bool learnt = result.steps == 1 || result.losses.back() < result.losses.front();
  result.check = same && learnt ? Check::passed : Check::failed;
  if (!same) {
    fail(1,
         fmt::format("bce: wrong result: weights differ by {:.3e} of the largest from those that one rank trains; at "
                     "most {:.0e} is right.\n",
                     result.difference, weight_tolerance));
  } else if (!learnt) {
    fail(1, fmt::format("bce: nothing was learnt: the loss went from {} to {}; a smaller --rate helps.\n",
                        result.losses.front(), result.losses.back()));
  }
}

/// Writes the file on rank 0; false on every rank if that fails.
bool write_file(const partita::apps::Origin& origin, const Training& training, const Options& options,
                const std::map<std::string, std::vector<Result>>& runs) {
  return !options.json || partita::apps::write_on_rank_0(training.comm(), "bce", [&] {
    const std::string path = options.output + ".json";
    write_record(origin, training, options, runs, path);
    say(fmt::format("wrote {}\n", path));
  });
}

/// Takes the modes that cannot run here out of `options` and says why; false if none is left.
bool keep_possible_modes(const Training& training, Options& options) {
  std::vector<std::string> possible;
  for (const std::string& mode : options.modes) {
    const auto problem = training.problem_with(mode);
    if (!problem) {
      possible.push_back(mode);
    } else if (options.all_modes) {
      say(fmt::format("left out: {}\n", *problem));
    } else {
      fail(2, fmt::format("bce: {}.\n", *problem));
    }
  }
  options.modes = possible;
  return !possible.empty();
}

int run_modes(Training& training, const Options& options) {
  partita::apps::Origin origin = partita::apps::begin_app_origin(options.json, training.comm(), options.gpu);
  // Connections and first touches are not what the modes differ in.
  for (const std::string& mode : options.modes) training.run(mode, std::min(warm_up_steps, options.steps));
  Expected expected(training, options.steps);
  std::map<std::string, std::vector<Result>> runs;
  bool all_passed = true;
  for (int repeat = 0; repeat < options.repeat; ++repeat) {
    for (const std::string& mode :
         in_drawn_order(options.modes, options.order_seed, static_cast<std::uint64_t>(repeat))) {
      const Outcome outcome = training.run(mode, options.steps);
      Result result = summarise(training, mode, outcome);
      if (options.verify) verify(training, outcome, expected, result);
      all_passed = all_passed && result.check != Check::failed;
      say(fmt::format("  {}\n", describe(result)));
      runs[result.mode].push_back(std::move(result));
    }
  }
  end_origin(origin);
  std::vector<Result> medians;
  medians.reserve(options.modes.size());
  for (const std::string& mode : options.modes) medians.push_back(partita::apps::median_run(runs.at(mode)));
  say(fmt::format("\n{}\n", comparison_table(medians)));
  const bool written = write_file(origin, training, options, runs);
  return all_passed && written ? 0 : 1;
}

}  // namespace

int command(int argc, char** argv) {
  const auto read = read_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&read)) return partita::apps::end(*exit);
  Options options = std::get<Options>(read);
  std::optional<std::string> problem = problem_with(options, MPI_COMM_WORLD);
  if (!problem && options.gpu) problem = gpu::Trainer::choose_device(MPI_COMM_WORLD);
  if (problem) return fail(2, fmt::format("bce: {}.\n", *problem));

  const int threads = partita::apps::thread_count(MPI_COMM_WORLD, options.threads);
  const int parts = partita::apps::partitions_for(options.problem.features, options.partitions);
  Training training(MPI_COMM_WORLD, options.problem, parts, threads);
  if (options.gpu) training.move_to_gpu(options.nccl);
  say(describe(training, options) + (options.gpu ? training.describe_device() + "\n"
                                                 : partita::apps::oversubscription_note(training.comm(), threads)));
  if (!keep_possible_modes(training, options)) return 2;
  return run_modes(training, options);
}

}  // namespace bce
