// What `partita bench NAME` accepts and refuses.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/options.hpp"

namespace partita::bench {
namespace {

Options parse(const std::vector<std::string>& arguments, const std::vector<std::string_view>& lacks = {},
              bool on_gpu = false) {
  Options defaults;
  defaults.benchmark = "latency";
  return parse_options(arguments, defaults, {"Test", lacks, on_gpu});
}

/// The sentence with which `arguments` are refused; empty if they are not.
std::string refusal(const std::vector<std::string>& arguments, const std::vector<std::string_view>& lacks = {},
                    bool on_gpu = false) {
  try {
    parse(arguments, lacks, on_gpu);
    return "";
  } catch (const OptionError& error) {
    return error.what();
  }
}

TEST(BenchOptions, sizes_are_a_range_with_powers_of_1024) {
  EXPECT_EQ(parse({"-m", "8:64K"}).min_bytes, 8);
  EXPECT_EQ(parse({"-m", "8:64K"}).max_bytes, 65536);
  EXPECT_EQ(parse({"-m", "1M"}).min_bytes, 1);
  EXPECT_EQ(parse({"-m", "1M"}).max_bytes, 1 << 20);
}

TEST(BenchOptions, a_wrong_range_of_sizes_is_refused_in_a_sentence) {
  for (const char* sizes :
       {"0:8", "16:8", "8:", ":8", "eight", "8:2G", "8:4T", "-1:8", "8:16:32", "99999999999999999999"}) {
    EXPECT_NE(refusal({std::string("--message-size=") + sizes}).find("is no range of message sizes"), std::string::npos)
        << sizes;
  }
}

TEST(BenchOptions, unknown_options_are_errors_that_name_them) {
  EXPECT_NE(refusal({"--bogus"}).find("--bogus"), std::string::npos);
  EXPECT_NE(refusal({"X"}).find("'X'"), std::string::npos);
}

TEST(BenchOptions, an_option_that_means_nothing_to_the_benchmark_is_refused_like_an_unknown_one) {
  EXPECT_EQ(refusal({"--window", "4"}), "");
  EXPECT_NE(refusal({"--window", "4"}, {"--window"}).find("--window"), std::string::npos);
}

TEST(BenchOptions, what_a_benchmark_lacks_is_an_option_that_exists) {
  for (const Benchmark& benchmark : benchmarks()) {
    EXPECT_EQ(refusal({}, benchmark.lacks, benchmark.on_gpu || benchmark.also_on_gpu), "") << benchmark.name;
  }
}

TEST(BenchOptions, every_benchmark_draws_its_orders_from_a_seed) {
  for (const Benchmark& benchmark : benchmarks()) {
    if (!benchmark.unavailable.empty()) continue;
    EXPECT_EQ(refusal({"--seed", "5"}, benchmark.lacks, benchmark.on_gpu || benchmark.also_on_gpu), "")
        << benchmark.name;
  }
  EXPECT_EQ(parse({"--seed", "5"}).seed, 5U);
}

TEST(BenchOptions, the_options_of_gpu_benchmarks_mean_nothing_to_the_others) {
  EXPECT_EQ(parse({"--blocks", "64,128", "--block-threads", "256"}, {}, true).blocks, (std::vector<int>{64, 128}));
  for (const char* option : {"--device", "--blocks", "--block-threads", "--nccl", "--nvshmem"}) {
    EXPECT_EQ(refusal({option, "64"}, {}, true), "") << option;
    EXPECT_NE(refusal({option, "64"}).find(option), std::string::npos) << option;
  }
}

TEST(BenchOptions, few_benchmarks_hand_gpu_memory_to_the_mpi) {
  EXPECT_FALSE(parse({}, {}, true).gpu_aware_mpi);
  EXPECT_TRUE(parse({"--gpu-aware-mpi"}, {}, true).gpu_aware_mpi);
  EXPECT_NE(refusal({"--gpu-aware-mpi"}).find("--gpu-aware-mpi"), std::string::npos);
  std::set<std::string_view> do_so{"partitioned.fig4", "partitioned.fig6", "partitioned.fig7", "queue.fig5"};
  for (const gpu::Naming& naming : gpu::peer_collective_namings) do_so.insert(naming.name);
  for (const Benchmark& benchmark : benchmarks()) {
    if (!benchmark.on_gpu || !benchmark.unavailable.empty()) continue;
    const std::string refused = refusal({"--gpu-aware-mpi"}, benchmark.lacks, true);
    EXPECT_EQ(refused.empty(), do_so.contains(benchmark.name)) << benchmark.name;
  }
}

TEST(BenchOptions, a_time_is_split_by_benchmarks_that_know_its_parts) {
  EXPECT_NE(refusal({"--split"}).find("--split"), std::string::npos);
  for (const Benchmark& benchmark : benchmarks()) EXPECT_EQ(benchmark.can_split, benchmark.name == "two-sided");
  const std::vector<std::string> arguments{"--split"};
  EXPECT_TRUE(parse_options(arguments, {}, {.what = "Test", .can_split = true}).split);
}

TEST(BenchOptions, epochs_before_a_sample_are_of_benchmarks_that_have_them) {
  EXPECT_NE(refusal({"--close-epochs", "2"}).find("--close-epochs"), std::string::npos);
  for (const Benchmark& benchmark : benchmarks()) {
    EXPECT_EQ(benchmark.follows_close_epochs, benchmark.name == "late-neighbours");
  }
  const Usage usage{.what = "Test", .follows_close_epochs = true};
  EXPECT_EQ(parse_options(std::vector<std::string>{"--close-epochs", "10"}, {}, usage).close_epochs, 10);
  EXPECT_THROW(parse_options(std::vector<std::string>{"--close-epochs", "-1"}, {}, usage), OptionError);
}

TEST(BenchOptions, device_placement_is_refused_and_never_measured_on_host_memory) {
  EXPECT_EQ(refusal({"H", "H"}), "");
  EXPECT_NE(refusal({"D", "H"}).find("GPU memory"), std::string::npos);
  EXPECT_NE(refusal({"H", "D"}).find("GPU memory"), std::string::npos);
  EXPECT_NE(refusal({"D", "D"}).find("partitioned."), std::string::npos);
  EXPECT_EQ(refusal({"D", "D"}).find("not support"), std::string::npos);
}

TEST(BenchOptions, lists_are_taken_apart) {
  const Options options =
      parse({"--partitions", "1,8,128", "--face", "c,mpi", "--link", "auto,mpi", "--peer", "native,library:/x.so"});
  EXPECT_EQ(options.partitions, (std::vector<int>{1, 8, 128}));
  EXPECT_EQ(options.faces, (std::vector<Face>{Face::c, Face::mpi}));
  EXPECT_EQ(options.links, (std::vector<std::string>{"auto", "mpi"}));
  EXPECT_EQ(options.peers, (std::vector<std::string>{"native", "library:/x.so"}));
}

TEST(BenchOptions, no_face_measures_the_mpi_alone) {
  EXPECT_TRUE(parse({"--face", "none"}).faces.empty());
}

TEST(BenchOptions, values_outside_their_range_are_refused) {
  EXPECT_NE(refusal({"--partitions", "0"}), "");
  EXPECT_NE(refusal({"--partitions", "8,-1"}), "");
  EXPECT_NE(refusal({"--threads", "0"}), "");
  EXPECT_NE(refusal({"-i", "0"}), "");
  EXPECT_NE(refusal({"-i", "many"}), "");
  EXPECT_NE(refusal({"--noise-percent", "-4"}), "");
  EXPECT_NE(refusal({"--link", "smoke"}), "");
  EXPECT_NE(refusal({"--face", "python"}), "");
  EXPECT_NE(refusal({"--delay", "poisson", "--compute-us", "10"}), "");
  EXPECT_NE(refusal({"--memory", "device"}), "");
}

TEST(BenchOptions, options_that_contradict_one_another_are_refused) {
  EXPECT_NE(refusal({"--delay", "single"}).find("--compute-us"), std::string::npos);
  EXPECT_NE(refusal({"--peer", "library:"}).find("library:PATH"), std::string::npos);
  EXPECT_NE(refusal({"--peer", "other"}).find("other"), std::string::npos);
}

TEST(BenchOptions, a_peer_library_may_have_info_keys) {
  const PeerLibrary plain = parse_peer_library("library:/x/peer.so");
  EXPECT_EQ(plain.path, "/x/peer.so");
  EXPECT_TRUE(plain.info.empty());
  const PeerLibrary keyed = parse_peer_library("library:/x/peer.so?PMODE=SENDER?SET=1=2");
  EXPECT_EQ(keyed.path, "/x/peer.so");
  EXPECT_EQ(keyed.info, (std::vector<std::pair<std::string, std::string>>{{"PMODE", "SENDER"}, {"SET", "1=2"}}));
  EXPECT_EQ(keyed.shown("peer"), "peer?PMODE=SENDER?SET=1=2");
  for (const char* wrong :
       {"library:?A=B", "library:/x?", "library:/x?A", "library:/x?=B", "library:/x?A=", "library:/x?A=B?"}) {
    EXPECT_NE(refusal({"--peer", wrong}).find("?KEY=VALUE"), std::string::npos) << wrong;
  }
  EXPECT_EQ(refusal({"--peer", "isend,native,library:/x.so?A=B"}), "");
}

/// What `--help` prints, without the empty lines at its end.
std::string help(const Options& defaults, const Usage& usage) {
  try {
    parse_options(std::vector<std::string>{"--help"}, defaults, usage);
    return "";
  } catch (const HelpWanted& wanted) {
    return wanted.text().substr(0, wanted.text().find_last_not_of('\n') + 1);
  }
}

TEST(BenchOptions, help_is_not_an_error) {
  EXPECT_THROW(parse({"--help"}), HelpWanted);
  EXPECT_THROW(parse({"-h"}), HelpWanted);
  const std::string text = help({}, {"Test"});
  for (const char* option : {"placement", "--message-size", "--delay", "--compute-us", "--noise-percent", "--seed",
                             "--memory", "--face", "--link", "--transport-partitions", "--peer", "--csv", "--json"}) {
    EXPECT_NE(text.find(option), std::string::npos) << option;
  }
  EXPECT_TRUE(text.ends_with("as JSON to this file")) << text;
}

TEST(BenchOptions, help_of_a_gpu_benchmark_goes_on_to_its_last_option) {
  EXPECT_TRUE(help({}, {"Test", {}, true}).ends_with("another one ends the job"));
}

TEST(BenchOptions, help_names_the_values_of_an_option_and_the_one_it_has) {
  Options defaults;
  defaults.delay.kind = DelayKind::uniform;
  const std::string text = help(defaults, {"Test"});
  const std::string delays = "{none,single,uniform,gaussian}";
  ASSERT_NE(text.find(delays), std::string::npos) << text;
  // "=uniform" or " [uniform]", by the version of CLI11
  EXPECT_NE(text.substr(text.find(delays) + delays.size(), 10).find("uniform"), std::string::npos) << text;
  EXPECT_NE(text.find("{plain,alloc}"), std::string::npos) << text;
  for (const char letter : text) EXPECT_TRUE(letter == '\n' || letter >= ' ') << int{letter};
}

TEST(BenchOptions, help_of_a_benchmark_that_this_build_lacks_says_so_instead_of_options) {
  const std::string text = help({}, {"Test", {}, true, "no GPU parts"});
  EXPECT_NE(text.find("no GPU parts"), std::string::npos);
  EXPECT_EQ(text.find("--delay"), std::string::npos);
}

TEST(BenchOptions, a_wrong_name_is_refused_with_the_names_that_there_are) {
  EXPECT_NE(refusal({"--delay", "poisson"}).find("{none,single,uniform,gaussian}"), std::string::npos);
  EXPECT_NE(refusal({"--delay", "3"}), "");
  EXPECT_NE(refusal({"--memory", "device"}).find("{plain,alloc}"), std::string::npos);
}

TEST(BenchOptions, names_of_delays_and_memory_are_taken) {
  EXPECT_EQ(parse({"--delay", "gaussian", "--compute-us", "1"}).delay.kind, DelayKind::gaussian);
  EXPECT_EQ(parse({"--delay", "none"}).delay.kind, DelayKind::none);
  EXPECT_EQ(parse({"--memory", "alloc"}).memory, Memory::alloc);
}

TEST(BenchOptions, the_defaults_of_the_benchmark_hold_where_nothing_is_said) {
  Options defaults;
  defaults.benchmark = "availability";
  defaults.delay = {DelayKind::uniform, 1000, 40};
  const Options options = parse_options({}, defaults, {"Test"});
  EXPECT_EQ(options.delay.kind, DelayKind::uniform);
  EXPECT_DOUBLE_EQ(options.delay.compute_us, 1000);
  EXPECT_EQ(options.partitions, std::vector<int>{8});
}

}  // namespace
}  // namespace partita::bench
