#include "apps/bce/record.hpp"

#include "apps/support/record.hpp"

namespace bce {
namespace {

using nlohmann::ordered_json;
using partita::apps::Check;

ordered_json run_record(const Result& run) {
  ordered_json record = {{"time_s", run.time_s},
                         {"step_s", run.step_s},
                         {"exposed_median_s", run.exposed_median_s},
                         {"exposed_max_s", run.exposed_max_s},
                         {"setup_s", run.setup_s},
                         {"accuracy", run.accuracy},
                         {"losses", run.losses}};
  if (run.check != Check::skipped) {
    record["difference_from_one_rank"] = run.difference;
    record["equal_to_one_rank"] = run.check == Check::passed;
  }
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, const Training& training, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path) {
  const Problem& problem = training.problem();
  ordered_json record = partita::apps::record_of("bce", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = {{"mpi", origin.machine.mpi},
                   {"ranks", training.ranks()},
                   {"threads", training.threads()},
                   {"partitions", training.parts()},
                   {"device", training.on_gpu() ? training.describe_device() : "cpu"}};
  record["problem"] = {{"samples", problem.samples},
                       {"features", problem.features},
                       {"seed", problem.seed},
                       {"rate", problem.rate},
                       {"steps", options.steps}};
  for (const std::string& name : options.modes) {
    for (const Result& run : runs.at(name)) record["runs"][name].push_back(run_record(run));
  }
  partita::apps::write_json(record, path);
}

}  // namespace bce
