// The app bce: what a step computes, every way to sum the gradient gives the weights that one rank trains, and bad
// options end on all ranks.
#include "apps/bce/bce.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/bce/modes.hpp"
#include "apps/bce/report.hpp"
#include "apps/bce/training.hpp"
#include "support/app.hpp"
#include "support/job.hpp"

namespace bce {
namespace {

using partita::test::rank;
using partita::test::ranks;

constexpr Problem small{.samples = 37, .features = 24, .seed = 5, .rate = 1.5};

/// The mean loss by its definition.
double mean_loss(const Problem& problem, const Samples& samples, const std::vector<double>& weights) {
  double sum = 0;
  for (std::int64_t i = 0; i < samples.count(); ++i) {
    double logit = 0;
    for (int f = 0; f < problem.features; ++f) logit += samples.row(i)[f] * weights[static_cast<std::size_t>(f)];
    const double chance = 1 / (1 + std::exp(-logit));
    sum -= samples.label(i) * std::log(chance) + (1 - samples.label(i)) * std::log(1 - chance);
  }
  return sum / static_cast<double>(problem.samples);
}

TEST(BceModel, gradient_is_the_losss_derivative) {
  const Samples samples(small, {0, small.samples}, 1);
  std::vector<double> weights(static_cast<std::size_t>(small.features)),
      slopes(static_cast<std::size_t>(small.samples));
  for (std::size_t f = 0; f < weights.size(); ++f) weights[f] = 0.3 * std::sin(static_cast<double>(f));
  EXPECT_NEAR(forward(small, samples, weights, slopes, 1) / small.samples, mean_loss(small, samples, weights), 1e-12);
  std::vector<double> gradient(weights.size());
  backward(samples, slopes, 0, std::span(gradient).first(10));
  backward(samples, slopes, 10, std::span(gradient).subspan(10));
  for (std::size_t f = 0; f < weights.size(); ++f) {
    constexpr double step = 1e-5;
    std::vector<double> more = weights, less = weights;
    more[f] += step;
    less[f] -= step;
    const double slope = (mean_loss(small, samples, more) - mean_loss(small, samples, less)) / (2 * step);
    EXPECT_NEAR(gradient[f], slope, 1e-8) << f;
  }
}

TEST(BceModel, losses_of_far_logits_are_finite) {
  constexpr Problem one{.samples = 8, .features = 1, .seed = 5, .rate = 1};
  const Samples samples(one, {0, one.samples}, 1);
  std::vector<double> slopes(8);
  for (const double bias : {-1e6, 1e6}) EXPECT_TRUE(std::isfinite(forward(one, samples, std::vector{bias}, slopes, 1)));
}

TEST(BceModel, a_sample_does_not_depend_on_who_holds_it) {
  const Samples whole(small, {0, small.samples}, 2);
  std::int64_t next = 0;
  for (int of = 0; of < 5; ++of) {
    const Range range = samples_of(small, of, 5);
    ASSERT_EQ(next, range.first);
    const Samples part(small, range, 1);
    for (std::int64_t i = 0; i < range.count; ++i, ++next) {
      EXPECT_EQ(whole.label(next), part.label(i));
      for (int f = 0; f < small.features; ++f) EXPECT_EQ(whole.row(next)[f], part.row(i)[f]);
    }
  }
  EXPECT_EQ(small.samples, next);
}

/// Few steps: each lets the ranks take turns on what may be one core.
TEST(Bce, every_mode_gives_the_weights_that_one_rank_trains) {
  constexpr int steps = 5;
  const Trained alone = train_alone(small, steps, 3);
  EXPECT_LT(alone.losses.back(), 0.95 * alone.losses.front());
  struct Shape {
    int parts, threads;
  };
  for (const auto& [parts, threads] : {Shape{1, 1}, Shape{3, 1}, Shape{8, 3}}) {
    Training training(MPI_COMM_WORLD, small, parts, threads);
    for (const Mode& mode : modes) {
      partita::test::step(fmt::format("{}, {} parts, {} threads", mode.name, parts, threads));
      const Outcome outcome = training.run(mode.name, steps);
      EXPECT_LT(difference(outcome.weights, alone.weights), 1e-12);
      EXPECT_LT(difference(outcome.losses, alone.losses), 1e-12);
    }
  }
}

TEST(Bce, a_difference_is_told_by_the_largest_weight_and_nothing_hides_it) {
  EXPECT_EQ(0.25, difference(std::vector{1.0, -4.0}, std::vector{2.0, -4.0}));
  EXPECT_EQ(0.0, difference(std::vector{1.0}, std::vector{1.0}));
  EXPECT_TRUE(std::isnan(difference(std::vector{1.0, std::nan("")}, std::vector{1.0, 2.0})));
}

int run(const std::vector<std::string>& arguments) {
  return partita::test::run_app(command, "bce", arguments);
}

TEST(BceCommand, ends_with_code_2_on_every_rank_for_options_that_make_no_sense) {
  const std::vector<std::vector<std::string>> bad = {{"--mode", "nccl"},
                                                     {"--frobnicate"},
                                                     {"leftover"},
                                                     {"--samples", "0"},
                                                     {"--features", "0"},
                                                     {"--steps", "0"},
                                                     {"--rate", "0"},
                                                     {"--rate", "fast"},
                                                     {"--seed", "-1"},
                                                     {"--partitions", "0"},
                                                     {"--threads", "-1"},
                                                     {"--output", ""},
                                                     {"--repeat", "0"},
                                                     {"--device", "tpu"},
                                                     {"--mode", "resident"},
                                                     {"--nccl", "x"},
                                                     {"--device", "gpu", "--mode", "nonblocking"}};
  for (const auto& arguments : bad) EXPECT_EQ(run(arguments), 2) << arguments.front();
  if (ranks() > 1) {
    EXPECT_EQ(run({"--samples", "1"}), 2);
  }
}

TEST(BceCommand, says_how_many_bytes_samples_take_that_no_memory_holds) {
  testing::internal::CaptureStderr();
  const int code = run({"--samples", "4294967296", "--features", "67108864"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2);
  if (rank() != 0) return;
  for (const char* words : {"4294967296 samples", "67108864 numbers", "bytes", "--no-verify"}) {
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

TEST(BceCommand, fails_where_nothing_is_learnt) {
  testing::internal::CaptureStderr();
  const int code = run({"--mode", "allreduce", "--samples", "64", "--features", "16", "--rate", "1e4", "--steps", "4"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 1);
  if (rank() == 0) {
    EXPECT_NE(said.find("nothing was learnt"), std::string::npos) << said;
  }
}

TEST(BceCommand, runs_all_modes_and_writes_the_record) {
  const std::string prefix = partita::test::temporary_prefix("bce_test");
  EXPECT_EQ(run({"--samples", "64", "--features", "60", "--steps", "8", "--partitions", "8", "--threads", "2",
                 "--repeat", "2", "--json", "--output", prefix}),
            0);
  if (rank() != 0) return;
  std::ifstream record_file(prefix + ".json");
  const auto record = nlohmann::json::parse(record_file);
  EXPECT_EQ(record["app"], "bce");
  EXPECT_EQ(record["job"]["ranks"], ranks());
  EXPECT_EQ(record["job"]["partitions"], 10) << "the divisor of 60 that is nearest to the 8 wanted is taken";
  EXPECT_EQ(record["problem"]["steps"], 8);
  for (const Mode& mode : modes) {
    const auto& runs = record["runs"][std::string(mode.name)];
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0]["equal_to_one_rank"], true);
    EXPECT_LT(runs[0]["difference_from_one_rank"], 1e-6);
    ASSERT_EQ(runs[0]["losses"].size(), 8U);
    EXPECT_LT(runs[0]["losses"][7], runs[0]["losses"][0]);
    EXPECT_GT(runs[0]["accuracy"], 0.5);
    EXPECT_LE(runs[0]["accuracy"], 1.0);
    EXPECT_GT(runs[0]["time_s"], runs[0]["exposed_max_s"]);
  }
  std::filesystem::remove(prefix + ".json");
}

TEST(BceCommand, ends_with_code_1_on_every_rank_when_the_file_cannot_be_written) {
  EXPECT_EQ(run({"--samples", "16", "--features", "4", "--steps", "2", "--mode", "partitioned", "--json", "--output",
                 "/nonexistent/folder/x"}),
            1);
}

}  // namespace
}  // namespace bce
