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
  if (!run.links.empty()) record["links"] = run.links;
  if (run.checked) {
    record["spectrum_error"] = run.spectrum_error;
    record["input_error"] = run.input_error;
    record["right"] = run.right();
  }
  return record;
}

ordered_json way_record(const GpuMemoryWay& way) {
  ordered_json record = {{"by", way.by_partita ? "Partita" : "MPI"}, {"why", way.why}};
  for (const CollectiveWay& each : way.collectives) {
    ordered_json& own = record["collectives"][each.exchange] = {{"by_peers", each.why_staged.empty()}};
    if (each.peers_from_bytes >= 0) own["peers_from_bytes"] = each.peers_from_bytes;
    if (!each.why_staged.empty()) own["why_staged"] = each.why_staged;
  }
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, MPI_Comm comm, const std::string& device,
                  const GpuMemoryWay* way, const Options& options, Against against,
                  const std::vector<std::string>& notes, const std::map<std::string, std::vector<Result>>& runs,
                  const std::string& path) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  const Problem& problem = options.problem;
  const RankGrid grid = rank_grid(problem.decomposition, ranks);
  ordered_json record = partita::apps::record_of("fft", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = {{"mpi", origin.machine.mpi}, {"ranks", ranks}, {"device", device}};
  if (way != nullptr) record["job"]["gpu_memory"] = way_record(*way);
  record["problem"] = {{"size", problem.size},
                       {"decomposition", decomposition_names[problem.decomposition == Decomposition::slab ? 0 : 1]},
                       {"rank_grid", {grid.rows, grid.columns}},
                       {"slices", problem.slices},
                       {"iterations", options.iterations}};
  if (options.verify) {
    record["problem"]["spectrum_compared_with"] = against == Against::one_rank ? "one rank" : "definition";
  }
  record["notes"] = notes;
  for (const std::string& exchange : options.exchanges) {
    for (const Result& run : runs.at(exchange)) record["runs"][exchange].push_back(run_record(run));
  }
  partita::apps::write_json(record, path);
}

}  // namespace fft
