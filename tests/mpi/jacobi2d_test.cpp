// The app jacobi2d: every way to exchange the halo gives the one-rank solution bit by bit; bad options end on all
// ranks.
#include "apps/jacobi2d/jacobi2d.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <omp.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/jacobi2d/collect.hpp"
#include "apps/jacobi2d/modes.hpp"
#include "apps/jacobi2d/reference.hpp"
#include "apps/support/threads.hpp"
#include "support/app.hpp"
#include "support/job.hpp"

namespace jacobi2d {
namespace {

using partita::apps::oversubscription_note;
using partita::test::divisions_of;
using partita::test::rank;
using partita::test::ranks;

/// Partitions of each halo and threads of each rank.
struct Setting {
  int partitions, threads;
};

std::vector<Setting> settings() {
#ifdef __SANITIZE_THREAD__
  return {{1, 1}, {5, 1}, {64, 1}};  // The thread sanitizer does not see the barriers of GCC's OpenMP.
#else
  return {{1, 3}, {5, 2}, {64, 1}};
#endif
}

void expect_one_rank_solution(const Plate& plate, const Outcome& outcome, std::string_view mode) {
  const std::vector<double> whole = gather(plate, plate.field(outcome.iterations % 2));
  const bool right = decide_on_rank_0(plate.comm(), [&] {
    Reference reference(plate.division(), plate.problem());
    const auto difference = first_difference(plate.division(), whole, reference.after(outcome.iterations));
    if (difference) std::printf("%s: %s\n", std::string(mode).c_str(), describe(*difference).c_str());
    return !difference;
  });
  EXPECT_TRUE(right) << mode;
}

TEST(Jacobi2d, every_mode_gives_the_one_rank_solution) {
  for (const auto& [rows, columns] : {std::pair(33, 47), std::pair(8, 64), std::pair(64, 8)}) {
    for (const Division& division : divisions_of(rows, columns)) {
      for (const Setting& setting : settings()) {
        omp_set_num_threads(setting.threads);
        partita::test::step(fmt::format("{} x {} cells on {} x {} ranks, {} partitions, {} threads", rows, columns,
                                        division.rank_rows, division.rank_columns, setting.partitions,
                                        setting.threads));
        Plate plate(MPI_COMM_WORLD, division, setting.partitions);
        for (const Mode& mode : modes) {
          plate.reset();
          const Outcome outcome = mode.solve(plate, {21, 0.0, 10});
          EXPECT_EQ(outcome.iterations, 21);
          expect_one_rank_solution(plate, outcome, mode.name);
        }
      }
    }
  }
}

TEST(Jacobi2d, every_mode_stops_at_the_tolerance_after_the_same_iterations) {
  omp_set_num_threads(1);
  const std::vector<Division> divisions = divisions_of(20, 24);
  Plate plate(MPI_COMM_WORLD, divisions.back(), 4);
  std::vector<Outcome> outcomes;
  for (const Mode& mode : modes) {
    plate.reset();
    outcomes.push_back(mode.solve(plate, {5000, 1e-2, 7}));
  }
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.converged);
    EXPECT_EQ(outcome.iterations % 7, 0);
    EXPECT_LE(outcome.history.back().residual, 1e-2);
    ASSERT_EQ(outcome.history.size(), outcomes.front().history.size());
    for (std::size_t i = 0; i < outcome.history.size(); ++i) {
      EXPECT_EQ(outcome.history[i].residual, outcomes.front().history[i].residual);
    }
  }
}

int run(const std::vector<std::string>& arguments) {
  return partita::test::run_app(command, "jacobi2d", arguments);
}

TEST(Jacobi2dThreads, a_note_says_that_times_mean_nothing_where_ranks_share_a_core) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string one_thread = oversubscription_note(MPI_COMM_WORLD, 1);
  const std::string two_threads = oversubscription_note(MPI_COMM_WORLD, 2);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(one_thread.find("mean nothing") != std::string::npos, ranks > 1) << one_thread;
  EXPECT_NE(two_threads.find("mean nothing"), std::string::npos) << two_threads;
}

TEST(Jacobi2dCommand, ends_with_code_2_on_every_rank_for_options_that_make_no_sense) {
  const std::vector<std::vector<std::string>> bad = {
      {"--mode", "blocking"}, {"--frobnicate"},     {"leftover"},           {"--size", "0", "5"},
      {"--size", "12"},       {"--tolerance", "x"}, {"--ranks", "7", "11"}, {"--partitions", "0"},
      {"--threads", "-1"},    {"--output", ""},     {"--size", "1", "100"}, {"--max-iterations", "99999999999"},
  };
  for (const auto& arguments : bad) EXPECT_EQ(run(arguments), 2) << arguments.front();
}

TEST(Jacobi2dCommand, runs_all_modes_and_writes_the_picture_and_the_history) {
  const std::string prefix = partita::test::temporary_prefix("jacobi2d_test");
  EXPECT_EQ(run({"--size", "24", "20", "--max-iterations", "50", "--tolerance", "0", "--check-every", "20", "--threads",
                 "1", "--json", "--output", prefix}),
            0);
  if (rank() != 0) return;
  std::ifstream history(prefix + "-residual.csv");
  std::vector<std::string> lines;
  for (std::string line; std::getline(history, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1 + 3 * modes.size()) << "a head, and for each mode a look at 20, 40 and 50";
  EXPECT_EQ(lines[0], "mode,iteration,residual,time_s");
  EXPECT_EQ(lines[1].rfind("nonblocking,20,", 0), 0U);
  EXPECT_EQ(lines[9].rfind("partitioned,50,", 0), 0U);
  EXPECT_GT(std::filesystem::file_size(prefix + ".png"), 1000U);
  std::ifstream record_file(prefix + ".json");
  const auto record = nlohmann::json::parse(record_file);
  EXPECT_EQ(record["job"]["ranks"], ranks());
  for (const Mode& mode : modes) {
    const auto& runs = record["runs"][std::string(mode.name)];
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0]["iterations"], 50);
    EXPECT_EQ(runs[0]["identical_to_one_rank"], true);
    EXPECT_GT(runs[0]["time_s"], 0.0);
  }
  std::filesystem::remove(prefix + ".json");
  std::filesystem::remove(prefix + ".png");
  std::filesystem::remove(prefix + "-residual.csv");
}

TEST(Jacobi2dCommand, ends_with_code_1_on_every_rank_when_a_file_cannot_be_written) {
  EXPECT_EQ(run({"--size", "16", "16", "--max-iterations", "5", "--threads", "1", "--output", "/nonexistent/folder/x"}),
            1);
}

}  // namespace
}  // namespace jacobi2d
