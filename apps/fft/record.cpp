#include "apps/fft/record.hpp"

#include "apps/fft/modes.hpp"
#include "apps/support/record.hpp"

namespace fft {
namespace {

using nlohmann::ordered_json;

ordered_json run_record(const Result& run) {
  ordered_json record = {{"iterations", run.iterations},   {"time_s", run.time_s},
                         {"iteration_s", run.iteration_s}, {"exchange_share", run.exchange_share},
                         {"gflops", run.gflops},           {"setup_s", run.setup_s}};
  if (run.checked) {
    record["spectrum_error"] = run.spectrum_error;
    record["input_error"] = run.input_error;
    record["right"] = run.right();
  }
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, MPI_Comm comm, const std::string& device, const Options& options,
                  Against against, const std::map<std::string, std::vector<Result>>& runs, const std::string& path) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  const Problem& problem = options.problem;
  const RankGrid grid = rank_grid(problem.decomposition, ranks);
  ordered_json record = partita::apps::record_of("fft", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = {{"mpi", origin.machine.mpi}, {"ranks", ranks}, {"device", device}};
  record["problem"] = {{"size", problem.size},
                       {"decomposition", decomposition_names[problem.decomposition == Decomposition::slab ? 0 : 1]},
                       {"rank_grid", {grid.rows, grid.columns}},
                       {"slices", problem.slices},
                       {"iterations", options.iterations}};
  if (options.verify) {
    record["problem"]["spectrum_compared_with"] = against == Against::one_rank ? "one rank" : "definition";
  }
  for (const std::string& exchange : options.exchanges) {
    for (const Result& run : runs.at(exchange)) record["runs"][exchange].push_back(run_record(run));
  }
  partita::apps::write_json(record, path);
}

}  // namespace fft
