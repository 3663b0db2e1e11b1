#include "apps/jacobi2d/record.hpp"

#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "apps/support/record.hpp"

namespace jacobi2d {
namespace {

using nlohmann::ordered_json;

ordered_json job_record(const partita::apps::Origin& origin, const Plate& plate, const Options& options) {
  const Division& division = plate.division();
  ordered_json halos = ordered_json::object();
  constexpr std::array names{"north", "south", "west", "east"};
  for (const Side side : plate.sides()) {
    halos[names[index_of(side)]] = {{"cells", halo_length(plate.field(0), side)},
                                    {"partitions", plate.partitions(side)}};
  }
  ordered_json record = {{"mpi", origin.machine.mpi},
                         {"ranks", division.ranks()},
                         {"rank_grid", {division.rank_rows, division.rank_columns}},
                         {"threads_per_rank", omp_get_max_threads()},
                         {"cells", {division.rows, division.columns}},
                         {"halos_of_rank_0", halos}};
  if (options.gpu) record["gpus"] = options.device_name;
  if (options.multiplier != 0) record["multiplier"] = options.multiplier;
  return record;
}

/// The paper's Jacobi figures count what it takes to set the communication up.
double gflops_with_setup(const Result& run) {
  const double all_s = run.time_s + run.setup_s;
  return all_s > 0.0 ? run.gflops * run.time_s / all_s : 0.0;
}

/// The share of a step that is not computing, the copies of the halo to and from the host included.
double halo_share(const Result& run) {
  return run.time_s > 0.0 ? std::max(0.0, 1.0 - run.sweep_s * run.iterations / run.time_s) : 0.0;
}

ordered_json run_record(const Result& run, bool gpu) {
  ordered_json record = {{"iterations", run.iterations}, {"residual", run.residual},
                         {"converged", run.converged},   {"time_s", run.time_s},
                         {"gflops", run.gflops},         {"halo_median_s", run.halo_median_s},
                         {"halo_max_s", run.halo_max_s}};
  if (gpu) {
    record["setup_s"] = run.setup_s;
    record["gflops_with_setup"] = gflops_with_setup(run);
  }
  if (run.sweep_s > 0.0) {
    record["sweep_s"] = run.sweep_s;
    record["halo_share"] = halo_share(run);
  }
  if (run.check != Check::skipped) record["identical_to_one_rank"] = run.check == Check::passed;
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, const Plate& plate, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path) {
  ordered_json record = partita::apps::record_of("jacobi2d", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = job_record(origin, plate, options);
  record["limits"] = {{"tolerance", options.tolerance},
                      {"max_iterations", options.max_iterations},
                      {"check_every", options.check_every}};
  if (options.gpu) record["warm_up"] = options.warm_up;
  for (const std::string& mode : options.modes) {
    for (const Result& run : runs.at(mode)) record["runs"][mode].push_back(run_record(run, options.gpu));
  }
  partita::apps::write_json(record, path);
}

}  // namespace jacobi2d
