#include "core/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace partita {
namespace {

Settings read(const std::vector<std::string>& variables) {
  std::vector<const char*> environment;
  for (const auto& variable : variables) environment.push_back(variable.c_str());
  environment.push_back(nullptr);
  return read_settings(environment.data());
}

std::string refusal_of(const std::string& variable) {
  try {
    read({"PATH=/bin", variable});
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::arg);
    return error.sentence();
  }
  ADD_FAILURE() << variable << " was accepted";
  return "";
}

TEST(Settings, an_environment_without_ours_gives_the_defaults) {
  const Settings settings = read({"PATH=/bin", "PARTITURA=1", "MY_PARTITA_LINK=mpi", "PARTITEST_SEED=1"});
  EXPECT_EQ(settings.link, "auto");
  EXPECT_EQ(settings.transport_partitions, 0);
  EXPECT_EQ(settings.gpu_copy, GpuCopy::automatic);
  EXPECT_EQ(settings.peer_collectives, (PeerCollectiveSize{PeerCollectiveSize::From::measured, 0}));
  EXPECT_EQ(settings.peer_messages_from_bytes, std::nullopt);
  EXPECT_EQ(settings.call_stream, CallStream::none);
  EXPECT_TRUE(settings.progress_thread);
  EXPECT_EQ(settings.warn_after_s, 30);
  EXPECT_EQ(settings.timeout_s, 0);
  EXPECT_EQ(settings.nodes, 1);
  EXPECT_TRUE(settings.trace_file.empty());
}

TEST(Settings, each_variable_is_read) {
  const std::vector<std::string> variables = {"PARTITA_LINK=mpi",          "PARTITA_PARTITIONS=7",
                                              "PARTITA_GPU_COPY=engine",   "PARTITA_GPU_AWARE=off",
                                              "PARTITA_PROGRESS=caller",   "PARTITA_WARN_AFTER=0.5",
                                              "PARTITA_TIMEOUT=12",        "PARTITA_TRACE=out.json",
                                              "PARTITA_SLOT_LIMIT=4096",   "PARTITA_FIRST_EPOCH=4294967295",
                                              "PARTITA_VERBOSE=1",         "PARTITA_TUNING=rules.csv",
                                              "PARTITA_NODES=2",           "PARTITA_PEER_COLLECTIVES=off",
                                              "PARTITA_PEER_MESSAGES=off", "PARTITA_GPU_AWARE_STREAM=per-thread"};
  for (const auto& known : known_settings()) {
    const auto sets_it = [&](const std::string& variable) {
      return variable.starts_with(std::string(known.name) + "=");
    };
    EXPECT_TRUE(std::any_of(variables.begin(), variables.end(), sets_it)) << known.name << " is missing in this test";
  }
  const Settings settings = read(variables);
  EXPECT_EQ(settings.link, "mpi");
  EXPECT_EQ(settings.transport_partitions, 7);
  EXPECT_EQ(settings.gpu_copy, GpuCopy::engine);
  EXPECT_EQ(settings.gpu_aware, GpuAware::off);
  EXPECT_EQ(settings.call_stream, CallStream::per_thread);
  EXPECT_EQ(read({"PARTITA_GPU_AWARE_STREAM=legacy"}).call_stream, CallStream::legacy);
  EXPECT_EQ(read({"PARTITA_GPU_AWARE_STREAM=none"}).call_stream, CallStream::none);
  using From = PeerCollectiveSize::From;
  EXPECT_EQ(settings.peer_collectives, (PeerCollectiveSize{From::never, 0}));
  EXPECT_EQ(read({"PARTITA_PEER_COLLECTIVES=auto"}).peer_collectives, (PeerCollectiveSize{From::measured, 0}));
  EXPECT_EQ(read({"PARTITA_PEER_COLLECTIVES=0"}).peer_collectives, (PeerCollectiveSize{From::bytes, 0}));
  EXPECT_EQ(read({"PARTITA_PEER_COLLECTIVES=9000"}).peer_collectives, (PeerCollectiveSize{From::bytes, 9000}));
  EXPECT_EQ(settings.peer_messages_from_bytes, std::nullopt);
  EXPECT_EQ(read({"PARTITA_PEER_MESSAGES=252"}).peer_messages_from_bytes, 252);
  EXPECT_FALSE(settings.progress_thread);
  EXPECT_EQ(settings.warn_after_s, 0.5);
  EXPECT_TRUE(settings.verbose);
  EXPECT_EQ(settings.timeout_s, 12);
  EXPECT_EQ(settings.nodes, 2);
  EXPECT_EQ(settings.trace_file, "out.json");
  EXPECT_EQ(settings.tuning_file, "rules.csv");
  EXPECT_EQ(settings.slot_limit_bytes, 4096);
  EXPECT_EQ(settings.first_epoch, 4294967295U);
}

TEST(Settings, an_unknown_variable_changes_nothing_and_is_named_with_the_nearest_known_one) {
  const Settings settings = read({"PARTITA_LNIK=mpi", "PARTITA_TIMEOUT=5", "PARTITA_WARN=1"});
  EXPECT_EQ(settings.link, "auto");
  EXPECT_EQ(settings.timeout_s, 5);
  EXPECT_EQ(settings.unknown, (std::vector<std::string>{"PARTITA_LNIK", "PARTITA_WARN"}));
  const std::string told = describe_unknown(settings.unknown);
  EXPECT_NE(told.find("PARTITA_LNIK (is PARTITA_LINK meant?)"), std::string::npos) << told;
  EXPECT_NE(told.find("PARTITA_WARN (is PARTITA_"), std::string::npos) << told;
}

TEST(Settings, what_systems_of_modules_set_is_not_unknown) {
  const Settings settings = read(
      {"PARTITA_ROOT=/opt", "PARTITA_HOME=/opt", "PARTITA_DIR=/opt", "PARTITA_PREFIX=/opt", "PARTITA_VERSION=0.1"});
  EXPECT_TRUE(settings.unknown.empty());
}

TEST(Settings, a_malformed_value_lists_the_known_ones) {
  const std::string sentence = refusal_of("PARTITA_PROGRESS=mip");
  for (const auto& known : known_settings()) {
    EXPECT_NE(sentence.find(known.name), std::string::npos) << known.name << " is missing in: " << sentence;
  }
}

TEST(Settings, a_malformed_value_is_an_error_that_names_it_and_what_was_expected) {
  for (const char* variable : {"PARTITA_LINK=",
                               "PARTITA_PARTITIONS=0",
                               "PARTITA_PARTITIONS=-3",
                               "PARTITA_PARTITIONS=4x",
                               "PARTITA_PARTITIONS=",
                               "PARTITA_PARTITIONS=99999999999",
                               "PARTITA_PROGRESS=yes",
                               "PARTITA_VERBOSE=yes",
                               "PARTITA_PEER_MESSAGES=251",
                               "PARTITA_WARN_AFTER=-1",
                               "PARTITA_WARN_AFTER=soon",
                               "PARTITA_WARN_AFTER=nan",
                               "PARTITA_TIMEOUT=inf",
                               "PARTITA_TIMEOUT=1e999",
                               "PARTITA_TIMEOUT=5s",
                               "PARTITA_TIMEOUT= 5",
                               "PARTITA_TRACE=",
                               "PARTITA_TUNING=",
                               "PARTITA_SLOT_LIMIT=-1",
                               "PARTITA_SLOT_LIMIT=64k",
                               "PARTITA_FIRST_EPOCH=4294967296",
                               "PARTITA_FIRST_EPOCH=-1",
                               "PARTITA_GPU_COPY=dma",
                               "PARTITA_GPU_AWARE=yes",
                               "PARTITA_GPU_AWARE=",
                               "PARTITA_GPU_AWARE_STREAM=",
                               "PARTITA_GPU_AWARE_STREAM=default",
                               "PARTITA_GPU_AWARE_STREAM=0x55d0c0ffee00",
                               "PARTITA_GPU_COPY=",
                               "PARTITA_GPU_COPY=Kernel",
                               "PARTITA_NODES=0",
                               "PARTITA_NODES=two",
                               "PARTITA_PEER_COLLECTIVES=on",
                               "PARTITA_PEER_COLLECTIVES=",
                               "PARTITA_PEER_COLLECTIVES=-1",
                               "PARTITA_PEER_COLLECTIVES=64K",
                               "PARTITA_PEER_COLLECTIVES=Auto"}) {
    const std::string sentence = refusal_of(variable);
    EXPECT_NE(sentence.find(variable), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("expected"), std::string::npos) << sentence;
  }
}

TEST(Settings, every_known_variable_says_what_it_expects_and_means) {
  for (const auto& known : known_settings()) {
    EXPECT_TRUE(std::string(known.name).starts_with("PARTITA_"));
    EXPECT_FALSE(std::string(known.expected).empty()) << known.name;
    EXPECT_FALSE(std::string(known.meaning).empty()) << known.name;
  }
}

}  // namespace
}  // namespace partita
