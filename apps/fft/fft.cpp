#include "apps/fft/fft.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "apps/fft/fftw.hpp"
#include "apps/fft/gpu/device.hpp"
#include "apps/fft/host.hpp"
#include "apps/fft/memory.hpp"
#include "apps/fft/modes.hpp"
#include "apps/fft/options.hpp"
#include "apps/fft/record.hpp"
#include "apps/fft/report.hpp"
#include "apps/fft/ways.hpp"
#include "apps/support/collect.hpp"
#include "apps/support/console.hpp"
#include "apps/support/job.hpp"
#include "apps/support/memory.hpp"
#include "apps/support/order.hpp"
#include "apps/support/rank_values.hpp"
#include "apps/support/threads.hpp"

namespace fft {
namespace {

using partita::apps::decide_on_rank_0;
using partita::apps::fail;
using partita::apps::Job;
using partita::apps::say;

std::string text_of(const Extents& size) {
  return fmt::format("{} x {} x {}", size[0], size[1], size[2]);
}

/// A sentence if a rank exchanges more cells than an int counts. Nothing is multiplied that could be too large: a side
/// has 2^20 cells at most.
std::optional<std::string> problem_with_counts(const Options& options, const Job& job, const std::string& exchange) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const Spacing spacing = spacing_of(exchange);
  const std::int64_t largest = largest_int(hops_of(options.problem, job.ranks(), job.rank(), spacing).all, spacing);
  if (!partita::apps::on_any_rank(job.comm(), largest > most)) return std::nullopt;
  return fmt::format(
      "{} cells (--size) on {} ranks take counts or places above {} with --exchange {}, which hands the MPI ints; "
      "partitioned does not",
      text_of(options.problem.size), job.ranks(), most, exchange);
}

/// A sentence if there is no memory for a rank's cells. The buffers of GPUs lie elsewhere.
std::optional<std::string> problem_with_memory(const Options& options, const Job& job) {
  std::int64_t cells = 0;
  for (const std::string& exchange : options.exchanges) {
    const Room room = room_for(hops_of(options.problem, job.ranks(), job.rank(), spacing_of(exchange)).all);
    cells = std::max(cells, (options.gpu ? 0 : room.all()) + (options.verify ? 2 : 1) * room.stage);
  }
  const std::int64_t refused = partita::apps::bytes_refused(bytes_of(cells), job.comm());
  if (refused == 0) return std::nullopt;
  return fmt::format("{} cells (--size) on {} ranks need {} bytes on one rank, which the system does not give it",
                     text_of(options.problem.size), job.ranks(), refused);
}

/// A sentence if a GPU has no memory for its ranks' cells, buffers and plans.
std::optional<std::string> problem_with_gpu_memory(const Options& options, const Job& job) {
  for (const std::string& exchange : options.exchanges) {
    const Hops hops = hops_of(options.problem, job.ranks(), job.rank(), spacing_of(exchange));
    const auto shortage = gpu::find_shortage(job.comm(), options.cufft, hops.all);
    if (!shortage) continue;
    return fmt::format(
        "{} cells (--size) on {} ranks with --exchange {} need {} bytes of the memory of one GPU, of which {} are free",
        text_of(options.problem.size), job.ranks(), exchange, shortage->needed_bytes, shortage->free_bytes);
  }
  return std::nullopt;
}

/// A sentence if the job cannot do what it was asked for. Collective; the same on every rank.
std::optional<std::string> problem_with(const Options& options, const Job& job) {
  for (const std::string& exchange : options.exchanges) {
    if (auto problem = problem_with_counts(options, job, exchange)) return problem;
  }
  if (auto problem = problem_with_memory(options, job)) return problem;
  if (!options.gpu) return problem_with_fftw();
  if (auto problem = gpu::choose_device(job.comm(), options.cufft)) return problem;
  return problem_with_gpu_memory(options, job);
}

std::string describe(const Options& options, const Job& job, const std::string& device) {
  const Problem& problem = options.problem;
  const RankGrid grid = rank_grid(problem.decomposition, job.ranks());
  const bool slab = problem.decomposition == Decomposition::slab;
  return fmt::format("Fourier transforms of {} cells, forward and inverse; {} ranks with {}, {}\n",
                     text_of(problem.size), job.ranks(),
                     slab ? "planes" : fmt::format("lines, as {} x {}", grid.rows, grid.columns), device);
}

/// Writes the file on rank 0; false on every rank if that fails.
bool write_file(const Job& job, const partita::apps::Origin& origin, const std::string& device, const Options& options,
                const GpuMemoryWay* way, Against against, const std::vector<std::string>& notes,
                const std::map<std::string, std::vector<Result>>& runs) {
  return !options.json || partita::apps::write_on_rank_0(job.comm(), "fft", [&] {
    const std::string path = options.output + ".json";
    write_record(origin, job.comm(), device, way, options, against, notes, runs, path);
    say(fmt::format("wrote {}\n", path));
  });
}

/// Says what is wrong with a run; the same verdict on every rank.
bool verify(const Job& job, const Result& result, Against against) {
  return decide_on_rank_0(job.comm(), [&] {
    if (!result.right()) fail(1, fmt::format("fft: {}.\n", complaint(result, against)));
    return result.right();
  });
}

std::string lines_of(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("note: {}\n", note);
  return text;
}

/// Over which the partitions of any run went; on rank 0.
std::vector<std::string> links_of_partitions(const std::map<std::string, std::vector<Result>>& runs) {
  std::set<std::string> links;
  const auto found = runs.find(std::string(exchange_names.back()));
  if (found == runs.end()) return {};
  for (const Result& run : found->second) links.insert(run.links.begin(), run.links.end());
  return {links.begin(), links.end()};
}

/// `way`: null where the cells lie in host memory.
int run_exchanges(const Job& job, const Options& options, const std::string& device, const GpuMemoryWay* way) {
  partita::apps::Origin origin = partita::apps::begin_app_origin(options.json, job.comm(), options.gpu);
  const WorkMaker make_work = options.gpu ? gpu::work_maker(options.cufft) : make_host_work;
  const Against against = check_of(options.problem.size, !problem_with_fftw());
  std::map<std::string, std::vector<Result>> runs;
  bool all_right = true;
  for (int repeat = 0; repeat < options.repeat; ++repeat) {
    for (const std::string& exchange :
         partita::apps::in_drawn_order(options.exchanges, options.order_seed, static_cast<std::uint64_t>(repeat))) {
      const Outcome outcome = run(job.comm(), options.problem, exchange, spacing_of(exchange), make_work,
                                  exchange_maker(exchange), {options.iterations, options.verify, against});
      Result result = summarise(job.comm(), options.problem.size, exchange, outcome);
      all_right = verify(job, result, against) && all_right;
      say(fmt::format("  {}\n", describe(result)));
      runs[exchange].push_back(std::move(result));
    }
  }
  end_origin(origin);
  std::vector<Result> medians;
  medians.reserve(options.exchanges.size());
  for (const std::string& exchange : options.exchanges) {
    medians.push_back(partita::apps::median_run(runs.at(exchange)));
  }
  std::vector<std::string> notes = notes_on_twins(way, options.exchanges);
  for (std::string& note : notes_on_links(links_of_partitions(runs), options.exchanges))
    notes.push_back(std::move(note));
  say(fmt::format("\n{}{}\n", comparison_table(medians), lines_of(notes)));
  const bool written = write_file(job, origin, device, options, way, against, notes, runs);
  return all_right && written ? 0 : 1;
}

}  // namespace

int command(int argc, char** argv) {
  const auto read = read_options(argc, argv);
  if (const auto* exit = std::get_if<Exit>(&read)) return partita::apps::end(*exit);
  const auto& options = std::get<Options>(read);
  const Job job;
  if (const auto problem = problem_with(options, job)) return fail(2, fmt::format("fft: {}.\n", *problem));

  const std::string device = options.gpu ? gpu::describe_device(job.comm()) : "one thread a rank";
  say(describe(options, job, device) + (options.gpu ? "" : partita::apps::oversubscription_note(job.comm(), 1)));
  if (!options.gpu) return run_exchanges(job, options, device, nullptr);
  const GpuMemoryWay way = gpu_memory_way(job.comm(), options.problem, options.exchanges);
  say(describe(way));
  return run_exchanges(job, options, device, &way);
}

}  // namespace fft
