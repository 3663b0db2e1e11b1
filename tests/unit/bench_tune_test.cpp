// What `partita tune` is asked, and what it makes of its medians.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/tune/decision.hpp"
#include "bench/tune/options.hpp"

namespace partita::bench::tune {
namespace {

TuneOptions parse(const std::vector<std::string>& arguments) {
  return parse_tune_options(arguments);
}

TEST(TuneDecision, takes_the_fastest) {
  EXPECT_EQ(decide({{"linear", 10}, {"ring", 4}, {"bruck", 5}}, "linear"), "ring");
}

TEST(TuneDecision, stays_with_the_built_in_choice_where_that_is_as_fast) {
  EXPECT_EQ(decide({{"linear", 10}, {"ring", 9.6}, {"bruck", 30}}, "linear"), "linear");
  EXPECT_EQ(decide({{"linear", 10}, {"ring", 9.4}, {"bruck", 30}}, "linear"), "ring");
  EXPECT_EQ(decide({{"linear", 9}, {"ring", 10}}, "linear"), "linear");
}

TEST(TuneDecision, does_without_a_built_in_choice_that_cannot_serve) {
  EXPECT_EQ(decide({{"ring", 10}, {"bruck", 9.9}}, "linear"), "bruck");
}

TEST(TuneOptions, have_defaults_for_all_collectives) {
  const TuneOptions options = parse({});
  EXPECT_FALSE(options.on_gpu);
  EXPECT_EQ(options.collectives.size(), 12U);
  EXPECT_EQ(sizes_of(options), (std::vector<std::int64_t>{64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}));
  EXPECT_EQ(options.command, "partita tune");
}

TEST(TuneOptions, are_read) {
  const TuneOptions options = parse({"--device", "gpu", "--collective", "scan,bcast", "-m", "1K:20K", "-i", "7", "-x",
                                     "2", "--seed", "9", "-o", "/some/folder/tuning.csv"});
  EXPECT_TRUE(options.on_gpu);
  EXPECT_EQ(options.collectives, (std::vector<std::string>{"scan", "bcast"}));
  EXPECT_EQ(sizes_of(options), (std::vector<std::int64_t>{1024, 4096, 16384}));
  EXPECT_EQ(options.iterations, 7);
  EXPECT_EQ(options.warmup, 2);
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.file, "/some/folder/tuning.csv");
  EXPECT_EQ(options.command.find("/some"), std::string::npos) << options.command;
  EXPECT_EQ(sizes_of(parse({"-m", "100"})), (std::vector<std::int64_t>{4, 16, 64}));
}

TEST(TuneOptions, that_are_wrong_are_named) {
  struct Wrong {
    std::vector<std::string> arguments;
    const char* named;
  };
  const Wrong all[] = {{{"--device", "tpu"}, "tpu"},
                       {{"--collective", "bcast,barrier"}, "barrier"},
                       {{"-m", "8:4"}, "-m 8:4 is no range"},
                       {{"-m", "0:64"}, "-m 0:64 is no range"},
                       {{"-m", "6:64"}, "-m begins with 6 bytes"},
                       {{"-i", "0"}, "0 not in range"},
                       {{"leftover"}, "leftover"}};
  for (const Wrong& wrong : all) {
    try {
      parse(wrong.arguments);
      ADD_FAILURE() << wrong.named << " was taken";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(wrong.named), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(parse({"--help"}), HelpWanted);
}

}  // namespace
}  // namespace partita::bench::tune
