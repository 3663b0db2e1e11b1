// Tuning files are read and written; what is wrong in one is told with its line.
#include "collective/tuning_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/algorithms.hpp"
#include "collective/kernel_algorithms.hpp"
#include "core/error.hpp"

namespace partita::collective {
namespace {

const std::string head = "# partita tuning 1\ncollective,driver,ranks,from_bytes,algorithm,medians_us\n";

std::string fault_of(const std::string& text) {
  try {
    read_tuning("some.csv", text);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::arg);
    return error.sentence();
  }
}

TEST(TuningFile, has_a_rule_a_line) {
  const Tuning tuning =
      read_tuning("some.csv", head +
                                  "allreduce,host,4,0,recursive_doubling,recursive_doubling=3.5 ring=9\n"
                                  "# about longer ones\n"
                                  "\n"
                                  "allreduce,host,4,65536,ring,\r\n"
                                  "bcast,device,2,0,buffers,\n"
                                  "alltoallv,host,any,0,pairwise,");
  const std::vector<Rule> expected = {{Kind::allreduce, MovedBy::host, 4, 0, "recursive_doubling"},
                                      {Kind::allreduce, MovedBy::host, 4, 65536, "ring"},
                                      {Kind::bcast, MovedBy::device, 2, 0, "buffers"},
                                      {Kind::alltoallv, MovedBy::host, any_ranks, 0, "pairwise"}};
  EXPECT_EQ(tuning.rules(), expected);
}

TEST(TuningFile, reads_what_it_writes) {
  const std::vector<MeasuredRule> rules = {
      {{Kind::gather, MovedBy::host, 3, 0, "binomial"}, {{"linear", 4.25}, {"binomial", 4}}},
      {{Kind::gather, MovedBy::host, any_ranks, 128, "linear"}, {}},
      {{Kind::alltoall, MovedBy::device, 8, 9, "packets"}, {{"packets", 1e6}}}};
  const std::vector<std::string> notes = {"date: today", "machine: a,b"};
  const std::string text = write_tuning(notes, rules);
  EXPECT_NE(text.find("# machine: a,b\n"), std::string::npos) << text;
  EXPECT_NE(text.find("gather,host,3,0,binomial,linear=4.25 binomial=4.00\n"), std::string::npos) << text;
  std::vector<Rule> expected;
  for (const MeasuredRule& each : rules) expected.push_back(each.rule);
  EXPECT_EQ(read_tuning("some.csv", text).rules(), expected);
}

/// Whatever has a name has rules.
TEST(TuningFile, takes_every_algorithm_that_serves) {
  for (int kind = 0; kind < kind_count; ++kind) {
    for (const MovedBy by : {MovedBy::host, MovedBy::device}) {
      for (const int ranks : {any_ranks, 1, 3, 4, 8}) {
        for (const std::string_view name : algorithm_names(static_cast<Kind>(kind), by, ranks)) {
          const std::vector<MeasuredRule> rules = {{{static_cast<Kind>(kind), by, ranks, 0, std::string(name)}, {}}};
          EXPECT_EQ(fault_of(write_tuning({}, rules)), "") << name;
        }
      }
    }
  }
}

TEST(TuningFile, is_refused_with_its_line_and_what_is_expected) {
  struct Wrong {
    std::string text;
    const char* expected;
  };
  const Wrong all[] = {
      {"", "some.csv, line 1: it is \"\"; expected of a tuning file is \"# partita tuning 1\""},
      {"# partita tuning 2\n", "line 1: it is \"# partita tuning 2\"; expected"},
      {"# partita tuning 1\n", "the file ends; expected are the columns collective,driver"},
      {"# partita tuning 1\n# note\nallreduce,host,4,0,ring,\n",
       "line 3: it is \"allreduce,host,4,0,ring,\"; expected"},
      {head + "allreduce,host,4,0,ring\n", "line 3: there are 5 fields; expected are 6: collective,driver,"},
      {head + "# x\nallreduce,host,4,0,ring,,\n", "line 4: there are 7 fields"},
      {head + "allred,host,4,0,ring,\n", "line 3: the collective is \"allred\"; expected is one of bcast, gather"},
      {head + "allreduce,gpu,4,0,ring,\n", "the driver is \"gpu\"; expected is host or device"},
      {head + "allreduce,host,0,0,ring,\n", "ranks are \"0\"; expected is a number from 1, or any"},
      {head + "allreduce,host,4x,0,ring,\n", "ranks are \"4x\""},
      {head + "allreduce,device,9,0,packets,\n", "ranks are 9; expected with driver device are up to 8"},
      {head + "allreduce,host,4,-1,ring,\n", "from_bytes is \"-1\"; expected is a number from 0"},
      {head + "allreduce,host,4,1k,ring,\n", "from_bytes is \"1k\""},
      {head + "allreduce,host,4,99999999999999999999,ring,\n", "from_bytes is \"99999999999999999999\""},
      {head + "alltoallv,host,4,8,linear,\n", "from_bytes is 8; expected of alltoallv is 0, since not all"},
      {head + "allreduce,host,4,0,tree,\n",
       "algorithm \"tree\" is none of allreduce by the host; expected is one of recursive_doubling, ring, "
       "recursive_halving"},
      {head + "bcast,host,4,0,packets,\n",
       "algorithm \"packets\" is none of bcast by the host; expected is one of binomial"},
      {head + "bcast,device,4,0,binomial,\n", "is none of bcast by the device; expected is one of buffers, packets"},
      {head + "scan,device,4,0,packets,\n", "scan is not moved by kernels; expected of it is driver host"},
      {head + "allgather,host,3,0,recursive_doubling,\n",
       "algorithm \"recursive_doubling\" cannot serve allgather among 3 ranks; expected is one of linear, bruck, ring"},
      {head + "allreduce,host,4,0,ring,ring=fast\n", "medians_us has \"ring=fast\"; expected are entries such as"},
      {head + "allreduce,host,4,0,ring,ring 4\n", "medians_us has \"ring\""},
      {head + "bcast,host,4,8,chain,\nbcast,host,4,8,linear,\n",
       "line 4: line 3 has a rule for the same collective, driver, ranks and from_bytes; expected is one"},
  };
  for (const Wrong& wrong : all) {
    EXPECT_NE(fault_of(wrong.text).find(wrong.expected), std::string::npos) << wrong.text << "\n"
                                                                            << fault_of(wrong.text);
  }
}

TEST(TuningFile, decides_before_the_built_in_rules) {
  const Tuning tuning = read_tuning("some.csv", head +
                                                    "allreduce,host,4,1000,ring,\n"
                                                    "allgather,host,any,0,recursive_doubling,\n"
                                                    "allreduce,device,4,0,buffers,\n");
  const auto allreduce = [&](int ranks, std::int64_t bytes, bool commutative) {
    const Problem problem = {
        .kind = Kind::allreduce, .size = ranks, .sent = {bytes}, .received = {bytes}, .commutative = commutative};
    return choose(problem, "auto", &tuning).name;
  };
  EXPECT_EQ(allreduce(4, 1000, true), "ring");
  EXPECT_EQ(allreduce(4, 999, true), "recursive_doubling") << "no rule of the file reaches down to here";
  EXPECT_EQ(allreduce(3, 1000, true), "recursive_doubling");
  EXPECT_EQ(allreduce(4, 1000, false), "recursive_doubling") << "a ring does not serve it";
  const auto allgather = [&](int ranks) {
    return choose({.kind = Kind::allgather, .size = ranks, .sent = {8}}, "auto", &tuning).name;
  };
  EXPECT_EQ(allgather(8), "recursive_doubling");
  EXPECT_EQ(allgather(6), "linear") << "recursive doubling serves powers of two";
  EXPECT_EQ(choose({.kind = Kind::allgather, .size = 8}, "bruck", &tuning).name, "bruck");

  const Problem four = {.kind = Kind::allreduce, .size = 4};
  EXPECT_EQ(choose_kernel_algorithm(four, 16, "auto").name, "packets");
  EXPECT_EQ(choose_kernel_algorithm(four, 16, "auto", &tuning).name, "buffers");
  EXPECT_EQ(choose_kernel_algorithm(four, 0, "auto", &tuning).name, "packets");
  EXPECT_EQ(choose_kernel_algorithm(four, 16, "packets", &tuning).name, "packets");
  EXPECT_EQ(choose_kernel_algorithm({.kind = Kind::allreduce, .size = 2}, 16, "auto", &tuning).name, "packets");
}

}  // namespace
}  // namespace partita::collective
