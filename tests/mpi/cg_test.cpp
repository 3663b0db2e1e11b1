// The app cg: every mode finds the known solution and that of one rank, whatever rows the ranks have; one rank's method
// is that of conjugate gradients; bad options end on all ranks.
#include "apps/cg/cg.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cg/host_work.hpp"
#include "apps/cg/modes.hpp"
#include "apps/cg/report.hpp"
#include "apps/cg/solver.hpp"
#include "apps/support/collect.hpp"
#include "support/app.hpp"
#include "support/job.hpp"

namespace cg {
namespace {

using partita::test::rank;
using partita::test::ranks;

constexpr Limits exact{10'000, 5, 1e-13};

/// The matrix times `x`, of the whole grid.
std::vector<double> times_matrix(const Problem& problem, const std::vector<double>& x) {
  const auto at = [&](int row, int column) {
    const bool inside = row >= 0 && row < problem.rows && column >= 0 && column < problem.columns;
    return inside ? x[static_cast<std::size_t>(row * problem.columns + column)] : 0.0;
  };
  std::vector<double> product;
  for (int i = 0; i < problem.rows; ++i) {
    for (int j = 0; j < problem.columns; ++j) {
      product.push_back(4 * at(i, j) - at(i - 1, j) - at(i + 1, j) - at(i, j - 1) - at(i, j + 1));
    }
  }
  return product;
}

TEST(Cg, the_known_solution_solves_the_system) {
  for (const Problem& problem : {Problem{7, 5}, Problem{1, 1}, Problem{1, 9}}) {
    const std::vector<double> product = times_matrix(problem, known_solution(problem));
    for (int row = 0; row < problem.rows; ++row) {
      for (int column = 0; column < problem.columns; ++column) {
        EXPECT_NEAR(product[static_cast<std::size_t>(row * problem.columns + column)],
                    right_hand_side_at(problem, row, column), 1e-15);
      }
    }
  }
}

TEST(Cg, one_rank_comes_to_the_known_solution) {
  for (const Problem& problem : {Problem{24, 31}, Problem{40, 1}, Problem{1, 1}}) {
    const Outcome alone = run_alone(problem, exact);
    EXPECT_TRUE(alone.converged);
    EXPECT_EQ(alone.iterations, 5 * (static_cast<int>(alone.residuals.size()) - 1));
    EXPECT_LT(difference(alone.solution, known_solution(problem)), 1e-12);
  }
}

/// In exact arithmetic n steps solve a system of n unknowns; here the eigenvalues are few.
TEST(Cg, solves_a_small_system_in_as_many_iterations_as_it_has_eigenvalues) {
  const Outcome outcome = run_alone({2, 2}, {10, 1, 1e-14});
  EXPECT_TRUE(outcome.converged);
  EXPECT_LE(outcome.iterations, 3);
}

/// What is left over when the solution is exact divides nothing by nothing.
TEST(Cg, goes_on_behind_the_exact_solution) {
  const Outcome outcome = run_alone({1, 1}, {40, 20, 0.0});
  EXPECT_EQ(outcome.solution, std::vector<double>{known_solution({1, 1}).front()});
  EXPECT_EQ(outcome.residuals.back(), 0.0);
}

std::vector<double> gathered(const Problem& problem, const Outcome& outcome) {
  std::vector<double> whole(known_solution(problem).size());
  partita::apps::gather_blocks(MPI_COMM_WORLD, divide(problem, ranks()), outcome.solution.data(), problem.columns,
                               MPI_DOUBLE, whole.data());
  return whole;
}

/// Also where a rank has one row, which both of its neighbours get, and where ranks have different ones.
TEST(Cg, every_mode_finds_the_solution_that_one_rank_finds) {
  for (const Problem& problem : {Problem{13, 9}, Problem{ranks(), 12}, Problem{2 * ranks() + 1, 1}}) {
    const Share share = share_of(MPI_COMM_WORLD, problem);
    const std::unique_ptr<Machine> machine = make_host(share);
    for (const std::string_view mode : host_modes) {
      partita::test::step(std::string(mode));
      const Outcome outcome = run(*machine, share, mode, exact);
      EXPECT_TRUE(outcome.converged);
      EXPECT_EQ(outcome.residuals.front(), 1.0);
      EXPECT_LE(outcome.residuals.back(), exact.tolerance);
      const std::vector<double> whole = gathered(problem, outcome);
      if (rank() != 0) continue;
      EXPECT_LT(difference(whole, run_alone(problem, exact).solution), rank_tolerance);
      EXPECT_LT(difference(whole, known_solution(problem)), 1e-12);
    }
  }
}

/// A run in one mode leaves nothing behind for the next one, and ends where it is told to.
TEST(Cg, runs_take_as_many_iterations_as_they_may) {
  const Problem problem{4 * ranks(), 40};
  const Share share = share_of(MPI_COMM_WORLD, problem);
  const std::unique_ptr<Machine> machine = make_host(share);
  std::vector<double> residuals;
  for (const std::string_view mode : host_modes) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Outcome outcome = run(*machine, share, mode, {7, 3, 0.0});
      EXPECT_EQ(outcome.iterations, 9) << "whole batches";
      EXPECT_FALSE(outcome.converged);
      if (residuals.empty()) residuals = outcome.residuals;
      ASSERT_EQ(outcome.residuals.size(), 4U);
      for (std::size_t i = 0; i < residuals.size(); ++i) EXPECT_NEAR(outcome.residuals[i] / residuals[i], 1.0, 1e-9);
    }
  }
}

Result right_result() {
  Result result;
  result.mode = "queue";
  result.residuals = {1.0, 1e-13};
  result.converged = result.checked = true;
  result.from_one_rank = 1e-13;
  result.from_known = 1e-12;
  return result;
}

TEST(CgReport, tells_what_is_wrong) {
  EXPECT_TRUE(right_result().right());
  const struct {
    void (*spoil)(Result& result);
    const char* said;
  } wrongs[] = {{[](Result& r) { r.converged = false; }, "has not converged"},
                {[](Result& r) { r.from_one_rank = 2e-10; }, "one rank finds"},
                {[](Result& r) { r.from_one_rank = std::numeric_limits<double>::infinity(); }, "one rank finds"},
                {[](Result& r) { r.from_known = 2e-9; }, "the known one"}};
  for (const auto& [spoil, said] : wrongs) {
    Result result = right_result();
    spoil(result);
    EXPECT_FALSE(result.right()) << said;
    EXPECT_NE(complaint(result).find(said), std::string::npos) << complaint(result);
    const std::vector<std::vector<Result>> runs{{result}};
    EXPECT_NE(comparison_table(runs).find("WRONG"), std::string::npos);
    result.checked = false;
    EXPECT_TRUE(result.right()) << "nobody has looked";
  }
}

TEST(CgReport, a_solution_that_is_no_number_is_infinitely_far_off) {
  const std::vector<double> expected{1.0, -4.0};
  EXPECT_EQ(difference(std::vector{2.0, -4.0}, expected), 0.25);
  EXPECT_EQ(difference(std::vector{1.0, std::nan("")}, expected), std::numeric_limits<double>::infinity());
}

TEST(CgReport, the_table_has_the_mean_time_and_the_speed_up) {
  std::vector<Result> slow(2, right_result()), fast(1, right_result());
  slow[0].iteration_s = 3e-6;
  slow[1].iteration_s = 5e-6;
  fast[0].iteration_s = 2e-6;
  EXPECT_DOUBLE_EQ(iteration_time(slow).mean, 4e-6);
  const std::vector<std::vector<Result>> runs{slow, fast};
  const std::string table = comparison_table(runs);
  for (const char* const words : {"4.00", "± 12.71", "1.00x", "of one run", "2.00x"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << " in\n" << table;
  }
}

int run_command(const std::vector<std::string>& arguments) {
  return partita::test::run_app(command, "cg", arguments);
}

TEST(CgCommand, ends_with_code_2_on_every_rank_for_options_that_make_no_sense) {
  const std::vector<std::vector<std::string>> bad = {{"--mode", "graph"},
                                                     {"--frobnicate"},
                                                     {"leftover"},
                                                     {"--size", "0", "5"},
                                                     {"--size", "12"},
                                                     {"--tolerance", "-1"},
                                                     {"--tolerance", "1e-6"},
                                                     {"--iterations", "0"},
                                                     {"--batch", "0"},
                                                     {"--output", ""},
                                                     {"--repeat", "0"},
                                                     {"--device", "tpu"},
                                                     {"--sums", "kernels"},
                                                     {"--device", "gpu", "--mode", "ring"},
                                                     {"--device", "gpu", "--sums", "nobody"}};
  for (const auto& arguments : bad) EXPECT_EQ(run_command(arguments), 2) << arguments.front();
  if (ranks() > 1) {
    EXPECT_EQ(run_command({"--size", "1", "5"}), 2);
  }
}

TEST(CgCommand, says_how_large_a_grid_is_that_no_memory_holds) {
  testing::internal::CaptureStderr();
  const int code = run_command({"--size", "16777216", "16777216"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2);
  if (rank() != 0) return;
  EXPECT_NE(said.find("16777216 x 16777216 points"), std::string::npos) << said;
}

TEST(CgCommand, fails_where_a_run_has_not_converged) {
  const std::vector<std::string> arguments = {"--size", "40", "40", "--iterations", "4", "--batch", "2"};
  testing::internal::CaptureStderr();
  const int code = run_command(arguments);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 1);
  if (rank() == 0) {
    EXPECT_NE(said.find("has not converged after 4 iterations"), std::string::npos) << said;
  }
  std::vector<std::string> unchecked = arguments;
  unchecked.emplace_back("--no-verify");
  EXPECT_EQ(run_command(unchecked), 0);
}

TEST(CgCommand, runs_all_modes_and_writes_the_record) {
  const std::string prefix = partita::test::temporary_prefix("cg_test");
  EXPECT_EQ(run_command({"--size", "8", "12", "--batch", "10", "--repeat", "2", "--json", "--output", prefix}), 0);
  if (rank() != 0) return;
  std::ifstream record_file(prefix + ".json");
  const auto record = nlohmann::json::parse(record_file);
  EXPECT_EQ(record["app"], "cg");
  EXPECT_EQ(record["job"]["ranks"], ranks());
  EXPECT_EQ(record["problem"]["columns"], 12);
  for (const std::string_view mode : host_modes) {
    const auto& runs = record["runs"][std::string(mode)];
    ASSERT_EQ(runs.size(), 2U);
    for (const auto& each : runs) {
      EXPECT_EQ(each["right"], true);
      EXPECT_LT(each["difference_from_one_rank"], rank_tolerance);
      EXPECT_LT(each["difference_from_known"], known_tolerance);
      EXPECT_EQ(each["residuals"][0], 1.0);
      EXPECT_GT(each["iteration_s"], 0.0);
    }
    const auto& iteration = record["iteration"][std::string(mode)];
    EXPECT_GT(iteration["mean_s"], 0.0);
    EXPECT_GE(iteration["half_width_95_s"], 0.0);
  }
  std::filesystem::remove(prefix + ".json");
}

TEST(CgCommand, ends_with_code_1_on_every_rank_when_the_file_cannot_be_written) {
  EXPECT_EQ(run_command({"--size", "16", "16", "--mode", "queue", "--json", "--output", "/nonexistent/folder/x"}), 1);
}

}  // namespace
}  // namespace cg
