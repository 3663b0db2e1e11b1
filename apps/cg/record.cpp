#include "apps/cg/record.hpp"

#include "apps/support/record.hpp"

namespace cg {
namespace {

using nlohmann::ordered_json;

ordered_json run_record(const Result& run) {
  ordered_json record = {{"iterations", run.iterations}, {"time_s", run.time_s},       {"iteration_s", run.iteration_s},
                         {"setup_s", run.setup_s},       {"converged", run.converged}, {"residuals", run.residuals}};
  if (run.checked) {
    record["difference_from_one_rank"] = run.from_one_rank;
    record["difference_from_known"] = run.from_known;
    record["right"] = run.right();
  }
  return record;
}

ordered_json mean_record(const partita::apps::Mean& time) {
  ordered_json record = {{"mean_s", time.mean}};
  if (time.half_width) record["half_width_95_s"] = *time.half_width;
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, MPI_Comm comm, const std::string& device, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  ordered_json record = partita::apps::record_of("cg", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = {{"mpi", origin.machine.mpi}, {"ranks", ranks}, {"device", device}};
  if (options.gpu) record["job"]["sums"] = options.sums;
  record["problem"] = {{"rows", options.problem.rows},
                       {"columns", options.problem.columns},
                       {"tolerance", options.limits.tolerance},
                       {"iterations", options.limits.iterations},
                       {"batch", options.limits.batch}};
  for (const std::string& name : options.modes) {
    const std::vector<Result>& of_mode = runs.at(name);
    for (const Result& run : of_mode) record["runs"][name].push_back(run_record(run));
    record["iteration"][name] = mean_record(iteration_time(of_mode));
  }
  partita::apps::write_json(record, path);
}

}  // namespace cg
