#include "apps/life/record.hpp"

#include "apps/support/record.hpp"

namespace life {
namespace {

using nlohmann::ordered_json;

ordered_json job_record(const partita::apps::Origin& origin, const Board& board) {
  const partita::apps::Division& division = board.division();
  ordered_json halos = ordered_json::object();
  for (const Edge& edge : edges_of(board.shape()))
    halos[std::string(edge.name)] = {{"cells", edge.message.cells}, {"partitions", edge.message.partitions}};
  ordered_json record = {{"mpi", origin.machine.mpi},
                         {"ranks", division.ranks()},
                         {"rank_grid", {division.rank_rows, division.rank_columns}},
                         {"cells", {division.rows, division.columns}},
                         {"block_of_rank_0", {board.shape().rows, board.shape().columns}},
                         {"halos_of_rank_0", halos}};
  if (board.on_gpu()) record["gpus"] = board.describe_device();
  return record;
}

ordered_json game_record(const Options& options) {
  return {{"boundary", options.game.boundary == Boundary::periodic ? "periodic" : "bounded"},
          {"density", options.game.density},
          {"seed", options.game.seed},
          {"generations", options.generations}};
}

ordered_json run_record(const Result& run) {
  ordered_json record = {{"time_s", run.time_s},
                         {"step_s", run.step_s},
                         {"halo_median_s", run.halo_median_s},
                         {"halo_max_s", run.halo_max_s},
                         {"setup_s", run.setup_s}};
  if (run.check != partita::apps::Check::skipped)
    record["identical_to_one_rank"] = run.check == partita::apps::Check::passed;
  return record;
}

}  // namespace

void write_record(const partita::apps::Origin& origin, const Board& board, const Options& options,
                  const std::map<std::string, std::vector<Result>>& runs, const std::string& path) {
  ordered_json record = partita::apps::record_of("life", origin);
  record["order_seed"] = options.order_seed;
  record["job"] = job_record(origin, board);
  record["game"] = game_record(options);
  for (const std::string& mode : options.modes) {
    for (const Result& run : runs.at(mode)) record["runs"][mode].push_back(run_record(run));
  }
  partita::apps::write_json(record, path);
}

}  // namespace life
