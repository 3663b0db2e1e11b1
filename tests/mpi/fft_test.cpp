// The app fft: every exchange gives the spectrum that one rank computes, to the same bits as the others, and the input
// back, whatever cells the ranks have; what an exchange does wrong is found; bad options end on all ranks.
#include "apps/fft/fft.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/fft/fftw.hpp"
#include "apps/fft/host.hpp"
#include "apps/fft/modes.hpp"
#include "apps/fft/report.hpp"
#include "apps/fft/ways.hpp"
#include "support/app.hpp"
#include "support/face.hpp"
#include "support/job.hpp"

namespace fft {
namespace {

using partita::test::rank;
using partita::test::ranks;

constexpr Decomposition decompositions[] = {Decomposition::slab, Decomposition::pencil};

/// What needs transforms on the host.
class Fft : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto problem = problem_with_fftw()) GTEST_SKIP() << *problem;
  }
};
using FftCheck = Fft;
using FftCommand = Fft;
using FftPartitions = Fft;

Box whole(const Extents& size) {
  return {{{{0, size[0]}, {0, size[1]}, {0, size[2]}}}};
}

/// Uneven ones, ranks without cells, sides of one cell, a prime one, and slices of unequal numbers of planes.
std::vector<Problem> problems(Decomposition decomposition) {
  return {{{8, 8, 8}, decomposition, 8},  {{13, 10, 7}, decomposition, 3}, {{1, 1, 1}, decomposition, 8},
          {{2, 3, 30}, decomposition, 4}, {{9, 1, 31}, decomposition, 2},  {{3, 17, 2}, decomposition, 1}};
}

/// The spectrum on this rank, and the input as it comes back.
struct Transformed {
  std::vector<Complex> spectrum, input;
  Route first, last;
};

Transformed transformed(const Problem& problem, std::string_view exchange) {
  Transform transform(MPI_COMM_WORLD, problem, spacing_of(exchange), make_host_work, exchange_maker(exchange));
  Transformed result;
  result.first = transform.hops().first();
  result.last = transform.hops().last();
  transform.work().load(input_of(problem.size, result.first.before, result.first.from.order));
  transform.forward();
  result.spectrum = transform.work().cells(result.last.after.cells());
  transform.inverse();
  result.input = transform.work().cells(result.first.before.cells());
  return result;
}

/// Each exchange, and its staged twin.
std::vector<std::string> exchanges_and_twins() {
  std::vector<std::string> names;
  for (const std::string_view name : exchange_names) {
    names.insert(names.end(), {std::string(name), std::string(name) + std::string(staged_suffix)});
  }
  return names;
}

TEST_F(Fft, every_exchange_gives_the_spectrum_of_one_rank_and_the_input_back) {
  for (const Decomposition decomposition : decompositions) {
    for (const Problem& problem : problems(decomposition)) {
      for (const std::string& exchange : exchanges_and_twins()) {
        partita::test::step(exchange);
        const Transformed result = transformed(problem, exchange);
        for (const Against against : {Against::one_rank, Against::definition}) {
          EXPECT_LT(spectrum_error(MPI_COMM_WORLD, problem.size, against, result.first.before, result.last.after,
                                   result.last.to.order, result.spectrum),
                    1e-14);
        }
        EXPECT_LT(input_error(MPI_COMM_WORLD, problem.size, result.first.before, result.first.from.order, result.input),
                  1e-14);
      }
    }
  }
}

/// Each transforms the same planes by the same steps, so that only what is moved could differ.
TEST_F(Fft, all_exchanges_give_the_same_bits) {
  for (const Decomposition decomposition : decompositions) {
    for (const Problem& problem : problems(decomposition)) {
      const Transformed first = transformed(problem, exchange_names.front());
      for (const std::string& exchange : exchanges_and_twins()) {
        const Transformed result = transformed(problem, exchange);
        EXPECT_EQ(result.spectrum, first.spectrum) << exchange;
        EXPECT_EQ(result.input, first.input) << exchange;
      }
    }
  }
}

/// Else its collectives could go by peer memory, and it were no yardstick of that.
TEST(FftExchange, staged_collectives_are_of_peers_that_partita_does_not_know) {
  MPI_Comm seen = MPI_COMM_NULL;
  const auto exchange = exchange_on_unknown_peers(MPI_COMM_WORLD, [&](MPI_Comm unknown_peers) {
    seen = unknown_peers;
    return exchange_by_alltoall(unknown_peers, {}, {});
  });
  int same = MPI_UNEQUAL, value = 0;
  MPI_Comm_compare(seen, MPI_COMM_WORLD, &same);
  EXPECT_EQ(same, MPI_CONGRUENT);
  MPI_Comm_set_errhandler(seen, MPI_ERRORS_RETURN);
  Partita_Request none = PARTITA_REQUEST_NULL;
  const int code = Partita_Precv_init(&value, 1, 1, MPI_INT, 0, 1, seen, MPI_INFO_NULL, &none);
  EXPECT_EQ(partita::test::class_of(code), MPI_ERR_COMM);
}

/// Counts in `*counted` the communicators with this attribute that are freed.
int count_freed(MPI_Comm /*comm*/, int /*key*/, void* counted, void* /*extra*/) {
  ++*static_cast<int*>(counted);
  return MPI_SUCCESS;
}

TEST(FftExchange, unknown_peers_are_freed_where_making_the_exchange_on_them_throws) {
  int freed = 0, key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_freed, &key, nullptr);
  EXPECT_THROW(exchange_on_unknown_peers(MPI_COMM_WORLD,
                                         [&](MPI_Comm unknown_peers) -> std::unique_ptr<Exchange> {
                                           MPI_Comm_set_attr(unknown_peers, key, &freed);
                                           throw std::bad_alloc();
                                         }),
               std::bad_alloc);
  EXPECT_EQ(freed, 1);
  MPI_Comm_free_keyval(&key);
}

/// The definition, summed by nobody's FFT, agrees with FFTW's three-dimensional plan at each frequency.
TEST_F(Fft, one_rank_computes_what_the_definition_says) {
  const Extents size{3, 4, 5};
  const std::vector<Complex> input = input_of(size, whole(size), {0, 1, 2});
  std::vector<Complex> spectrum = input;
  transform_whole(size, Direction::forward, spectrum.data());
  std::size_t cell = 0;
  for (std::int64_t x = 0; x < size[0]; ++x) {
    for (std::int64_t y = 0; y < size[1]; ++y) {
      for (std::int64_t z = 0; z < size[2]; ++z) {
        EXPECT_LT(std::abs(sum_by_definition(size, whole(size), input, {x, y, z}) - spectrum[cell++]), 1e-13);
      }
    }
  }
}

std::vector<std::string> links_of(std::string_view exchange) {
  const Problem problem{{8, 8, 8}, Decomposition::pencil, 4};
  Transform transform(MPI_COMM_WORLD, problem, spacing_of(exchange), make_host_work, exchange_maker(exchange));
  transform.forward();
  transform.inverse();
  return transform.links();
}

TEST_F(FftPartitions, go_over_link_mpi_if_staged_and_over_another_one_if_not) {
  if (std::getenv("PARTITA_LINK") != nullptr) GTEST_SKIP() << "PARTITA_LINK chooses the link of partitioned";
  EXPECT_TRUE(links_of("alltoall").empty()) << "no request of Partita's";
  if (ranks() == 1) GTEST_SKIP() << "a rank alone has no transfers";
  EXPECT_EQ(links_of("partitioned-staged"), std::vector<std::string>{"mpi"});
  const std::vector<std::string> links = links_of("partitioned");
  EXPECT_FALSE(links.empty());
  EXPECT_EQ(std::ranges::count(links, "mpi"), 0);
}

TEST(FftLinks, each_name_in_a_list_counts_once) {
  EXPECT_EQ(names_in(", mpi, direct, , mpi"), (std::vector<std::string>{"direct", "mpi"}));
  EXPECT_TRUE(names_in("").empty());
}

/// Whoever takes GPU memory here.
TEST(FftWays, tell_of_each_collective_how_it_goes_or_that_the_mpi_is_left_gpu_memory) {
  const Problem problem{{8, 8, 8}, Decomposition::pencil, 4};
  const GpuMemoryWay way = gpu_memory_way(MPI_COMM_WORLD, problem, exchanges_and_twins());
  EXPECT_FALSE(way.why.empty());
  EXPECT_EQ(way.collectives.size(), way.by_partita ? 2U : 0U);
  for (const CollectiveWay& each : way.collectives) {
    EXPECT_TRUE(each.peers_from_bytes >= 0 || !each.why_staged.empty()) << each.exchange;
    EXPECT_NE(describe(way).find(each.exchange + ": "), std::string::npos);
  }
}

TEST(FftWays, lead_to_peer_memory_within_a_node_among_64_ranks_from_a_size_on) {
  const auto reach = [](Decomposition decomposition, int of_ranks, bool in_row, const std::vector<int>& nodes,
                        std::int64_t from_bytes) {
    const auto hops = hops_of({{8, 8, 8}, decomposition, 8}, of_ranks, 0, Spacing::exact).all;
    const auto hop = std::ranges::find_if(hops, [&](const Hop& each) { return each.route.in_row == in_row; });
    return reach_of(*hop, rank_grid(decomposition, of_ranks), 0, nodes, from_bytes);
  };
  constexpr std::int64_t half_of_it = 8 * 8 * 8 / 2 * 16;  // bytes of each of two ranks
  const bool slabs_in_rows = hops_of({{8, 8, 8}, Decomposition::slab, 8}, 2, 0, Spacing::exact).all[0].route.in_row;
  EXPECT_EQ(reach(Decomposition::slab, 2, slabs_in_rows, {0, 0}, half_of_it), Reach::by_peers);
  EXPECT_EQ(reach(Decomposition::slab, 2, slabs_in_rows, {0, 0}, half_of_it + 1), Reach::too_small);
  EXPECT_EQ(reach(Decomposition::slab, 2, slabs_in_rows, {0, 1}, 0), Reach::between_nodes);
  EXPECT_EQ(reach(Decomposition::slab, 65, slabs_in_rows, std::vector<int>(65, 0), 0), Reach::among_too_many);
  // Two rows of two: each row on a node of its own.
  EXPECT_EQ(reach(Decomposition::pencil, 4, true, {0, 0, 2, 2}, 0), Reach::by_peers);
  EXPECT_EQ(reach(Decomposition::pencil, 4, false, {0, 0, 2, 2}, 0), Reach::between_nodes);
}

TEST(FftWays, say_which_twins_cannot_differ) {
  const std::vector<std::string> all = exchanges_and_twins();
  const GpuMemoryWay of_mpi{false, "the MPI takes GPU memory itself", {}};
  const GpuMemoryWay staged{
      true, "PARTITA_GPU_AWARE is on", {{"alltoall", 4096, ""}, {"alltoallv", -1, "no rank has a GPU"}}};
  EXPECT_EQ(notes_on_twins(nullptr, all).size(), 2U);
  const auto left = notes_on_twins(&of_mpi, all);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_NE(left[0].find("alltoall and alltoall-staged are the same calls"), std::string::npos) << left[0];
  EXPECT_NE(left[1].find(of_mpi.why), std::string::npos) << left[1];
  EXPECT_EQ(notes_on_twins(&staged, all),
            std::vector<std::string>{
                "alltoallv goes through host memory as alltoallv-staged does, since no rank has a GPU."});
  for (const GpuMemoryWay* const way : {&of_mpi, &staged}) {
    EXPECT_TRUE(notes_on_twins(way, std::vector<std::string>{"alltoall", "alltoallv"}).empty()) << "there are no twins";
  }
  EXPECT_EQ(notes_on_links({"mpi"}, all).size(), 1U);
  EXPECT_TRUE(notes_on_links({"direct", "mpi"}, all).empty());
  EXPECT_TRUE(notes_on_links({}, all).empty());
  EXPECT_TRUE(notes_on_links({"mpi"}, std::vector<std::string>{"partitioned"}).empty()) << "there is no twin";
}

TEST_F(FftCheck, finds_one_wrong_number_on_any_rank) {
  const Problem problem{{6, 5, 4}, Decomposition::slab, 8};
  Transformed result = transformed(problem, "alltoallv");
  const auto by_definition = [&] {
    return spectrum_error(MPI_COMM_WORLD, problem.size, Against::definition, result.first.before, result.last.after,
                          result.last.to.order, result.spectrum);
  };
  const auto errors = [&] {
    return std::pair{
        spectrum_error(MPI_COMM_WORLD, problem.size, Against::one_rank, result.first.before, result.last.after,
                       result.last.to.order, result.spectrum),
        input_error(MPI_COMM_WORLD, problem.size, result.first.before, result.first.from.order, result.input)};
  };
  for (int wrong_rank = 0; wrong_rank < ranks(); ++wrong_rank) {
    const Transformed right = result;
    if (rank() == wrong_rank) {
      result.spectrum.back() += 1e-9;
      result.input.front() = std::numeric_limits<double>::quiet_NaN();
    }
    const auto [of_spectrum, of_input] = errors();
    EXPECT_GT(of_spectrum, tolerance);
    EXPECT_EQ(of_input, std::numeric_limits<double>::infinity());
    result = right;
    // The definition is asked at one frequency of each rank at least.
    if (rank() == wrong_rank) {
      for (Complex& number : result.spectrum) number += 1e-9;
    }
    EXPECT_GT(by_definition(), tolerance);
    result = right;
  }
  EXPECT_LT(errors().first, tolerance);
  EXPECT_LT(by_definition(), tolerance);
}

TEST_F(FftCheck, is_infinite_where_nothing_was_compared) {
  const Problem problem{{6, 5, 4}, Decomposition::slab, 8};
  const Transformed result = transformed(problem, "alltoallv");
  const Box nothing{};
  for (const Against against : {Against::one_rank, Against::definition}) {
    EXPECT_EQ(
        spectrum_error(MPI_COMM_WORLD, problem.size, against, result.first.before, nothing, result.last.to.order, {}),
        std::numeric_limits<double>::infinity());
  }
}

/// An exchange whose first block from the last peer is not what came.
class Wrong final : public Exchange {
 public:
  /// `first_round`, `rounds`: from which round on, and for how many of this hop.
  Wrong(std::unique_ptr<Exchange> right, const Hop& hop, const Buffers& buffers, int first_round, int rounds)
      : right_(std::move(right)), hop_(hop), buffers_(buffers), first_(first_round), end_(first_round + rounds) {}

  void start() override { right_->start(); }
  void packed(int slice) override { right_->packed(slice); }
  void await(int slice) override {
    right_->await(slice);
    if (slice != 0 || round_ < first_ || round_ >= end_) return;
    const auto last = static_cast<std::size_t>(hop_.route.peers - 1);
    if (hop_.route.received[last].cells() > 0) buffers_.received[hop_.received.displacements[last]] *= -1;
  }
  void finish() override {
    right_->finish();
    ++round_;
  }

 private:
  std::unique_ptr<Exchange> right_;
  const Hop& hop_;
  Buffers buffers_;
  int first_, end_, round_ = 0;
};

/// What a run with 3 iterations finds, in which exchanges of this direction are wrong in some rounds.
Result result_of_wrong(std::string_view exchange, Decomposition decomposition, Direction direction, int first_round,
                       int rounds) {
  const Problem problem{{6, 5, 4}, decomposition, 3};
  const ExchangeMaker right = exchange_maker(exchange);
  const ExchangeMaker maker = [&](MPI_Comm peers, const Hop& hop, const Buffers& buffers) -> std::unique_ptr<Exchange> {
    if (hop.direction != direction) return right(peers, hop, buffers);
    return std::make_unique<Wrong>(right(peers, hop, buffers), hop, buffers, first_round, rounds);
  };
  const Outcome outcome =
      run(MPI_COMM_WORLD, problem, exchange, spacing_of(exchange), make_host_work, maker, {3, true, Against::one_rank});
  return summarise(MPI_COMM_WORLD, problem.size, exchange, outcome);
}

TEST_F(FftCheck, finds_an_exchange_that_is_wrong_once) {
  for (const std::string_view exchange : exchange_names) {
    for (const Decomposition decomposition : decompositions) {
      partita::test::step(std::string(exchange));
      const Result never = result_of_wrong(exchange, decomposition, Direction::forward, 0, 0);
      EXPECT_TRUE(never.right()) << complaint(never, Against::one_rank);
      // In the first transform, which is not timed; in the last one; on the way back alone.
      const Result first = result_of_wrong(exchange, decomposition, Direction::forward, 0, 1);
      EXPECT_FALSE(first.right());
      EXPECT_GT(first.spectrum_error, tolerance);
      const Result last = result_of_wrong(exchange, decomposition, Direction::forward, 3, 1);
      EXPECT_FALSE(last.right());
      EXPECT_LT(last.spectrum_error, tolerance);
      EXPECT_GT(last.input_error, tolerance_after(4));
      EXPECT_FALSE(result_of_wrong(exchange, decomposition, Direction::inverse, 1, 1).right());
    }
  }
}

/// Notes what is asked of it; there are no cells.
class NotingWork final : public Work {
 public:
  explicit NotingWork(std::vector<std::string>& calls) : calls_(calls) {}
  Buffers buffers() const override { return {}; }
  void load(const std::vector<Complex>& /*cells*/) override {}
  std::vector<Complex> cells(std::int64_t /*count*/) const override { return {}; }
  void begin(const Hop& /*hop*/) override { calls_.emplace_back("begin"); }
  void pack(int slice) override { calls_.push_back("pack " + std::to_string(slice)); }
  void unpack(int slice) override { calls_.push_back("unpack " + std::to_string(slice)); }
  void end() override { calls_.emplace_back("end"); }

 private:
  std::vector<std::string>& calls_;
};

class NotingExchange final : public Exchange {
 public:
  explicit NotingExchange(std::vector<std::string>& calls) : calls_(calls) {}
  void start() override { calls_.emplace_back("start"); }
  void packed(int slice) override { calls_.push_back("packed " + std::to_string(slice)); }
  void await(int slice) override { calls_.push_back("await " + std::to_string(slice)); }
  void finish() override { calls_.emplace_back("finish"); }

 private:
  std::vector<std::string>& calls_;
};

/// Each slice is sent before the next one is transformed, and taken before the next one has to be there.
TEST(FftTransform, hands_over_one_slice_after_the_other) {
  std::vector<std::string> calls;
  Transform transform(
      MPI_COMM_WORLD, {{2 * ranks(), 4, 4}, Decomposition::slab, 2}, Spacing::slices,
      [&](const std::vector<Hop>&) { return std::make_unique<NotingWork>(calls); },
      [&](MPI_Comm, const Hop&, const Buffers&) { return std::make_unique<NotingExchange>(calls); });
  transform.forward();
  EXPECT_EQ(calls, (std::vector<std::string>{"begin", "start", "pack 0", "packed 0", "pack 1", "packed 1", "await 0",
                                             "unpack 0", "await 1", "unpack 1", "finish", "end"}));
}

TEST(FftInput, has_no_pattern_and_lies_where_it_lies_for_any_order_of_axes) {
  const Extents size{4, 5, 6};
  const std::vector<Complex> straight = input_of(size, whole(size), {0, 1, 2}),
                             turned = input_of(size, whole(size), {2, 0, 1});
  for (std::int64_t x = 0; x < size[0]; ++x) {
    for (std::int64_t y = 0; y < size[1]; ++y) {
      for (std::int64_t z = 0; z < size[2]; ++z) {
        const Complex here = input_at(size, x, y, z);
        EXPECT_EQ(straight[static_cast<std::size_t>((x * size[1] + y) * size[2] + z)], here);
        EXPECT_EQ(turned[static_cast<std::size_t>((z * size[0] + x) * size[1] + y)], here);
        EXPECT_LE(std::abs(here.real()), 1.0);
        EXPECT_NE(here, input_at(size, (x + 1) % size[0], y, z));
      }
    }
  }
}

Result right_result() {
  Result result;
  result.exchange = "partitioned";
  result.iterations = 3;
  result.iteration_s = 2e-3;
  result.exchange_share = 0.25;
  result.gflops = 7.5;
  result.checked = true;
  result.spectrum_error = 1e-15;
  result.input_error = 1.9e-12;  // of four transforms there and back
  return result;
}

TEST(FftReport, tells_what_is_wrong) {
  EXPECT_TRUE(right_result().right());
  const struct {
    void (*spoil)(Result& result);
    const char* said;
  } wrongs[] = {{[](Result& r) { r.spectrum_error = 1.1e-12; }, "one rank computes"},
                {[](Result& r) { r.spectrum_error = std::numeric_limits<double>::infinity(); }, "one rank computes"},
                {[](Result& r) { r.input_error = 2.1e-12; }, "after 4 transforms there and back"}};
  for (const auto& [spoil, said] : wrongs) {
    Result result = right_result();
    spoil(result);
    EXPECT_FALSE(result.right()) << said;
    EXPECT_NE(complaint(result, Against::one_rank).find(said), std::string::npos);
    EXPECT_NE(comparison_table(std::vector{result}).find("WRONG"), std::string::npos);
    result.checked = false;
    EXPECT_TRUE(result.right()) << "nobody has looked";
  }
}

TEST(FftReport, counts_operations_as_everybody_does) {
  EXPECT_DOUBLE_EQ(operations_of({8, 4, 2}), 5.0 * 64 * 6);
  Outcome outcome;
  outcome.iterations = 4;
  outcome.time_s = 2;
  outcome.exchange_s = 0.5;
  const Result result = summarise(MPI_COMM_WORLD, {8, 4, 2}, "alltoall", outcome);
  if (rank() != 0) return;
  EXPECT_DOUBLE_EQ(result.iteration_s, 0.5);
  EXPECT_DOUBLE_EQ(result.exchange_share, 0.25);
  EXPECT_DOUBLE_EQ(result.gflops, 2 * 1920 / 0.5 / 1e9);
}

TEST(FftReport, the_table_has_the_speed_up_over_the_first_exchange) {
  std::vector<Result> results(2, right_result());
  results[0].iteration_s = 3e-3;
  const std::string table = comparison_table(results);
  for (const char* const words : {"3.000", "1.50x", "25 %", "7.50"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << " in\n" << table;
  }
}

TEST(FftReport, the_table_compares_an_exchange_with_its_own_staged_twin) {
  std::vector<Result> results(4, right_result());
  const char* const names[] = {"alltoall-staged", "alltoall", "partitioned-staged", "partitioned"};
  const double times_s[] = {8e-3, 4e-3, 9e-3, 3e-3};
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].exchange = names[i];
    results[i].iteration_s = times_s[i];
  }
  const std::string table = comparison_table(results);
  const std::string_view speed_ups[] = {"1.00x", "2.00x", "1.00x", "3.00x"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t line = table.find(std::string("\n") + names[i] + " ") + 1;
    EXPECT_NE(table.substr(line, table.find('\n', line) - line).find(speed_ups[i]), std::string::npos)
        << names[i] << " in\n"
        << table;
  }
}

int run_command(const std::vector<std::string>& arguments) {
  return partita::test::run_app(command, "fft", arguments);
}

TEST(FftOptions, end_with_code_2_on_every_rank_where_they_make_no_sense) {
  const std::vector<std::vector<std::string>> bad = {{"--exchange", "ring"},
                                                     {"--exchange", "alltoall-staged"},
                                                     {"--frobnicate"},
                                                     {"leftover"},
                                                     {"--size", "0", "5", "5"},
                                                     {"--size", "12", "12"},
                                                     {"--decomposition", "brick"},
                                                     {"--iterations", "0"},
                                                     {"--repeat", "0"},
                                                     {"--slices", "0"},
                                                     {"--output", ""},
                                                     {"--device", "tpu"},
                                                     {"--cufft", "libcufft.so"},
                                                     {"--device", "gpu", "--cufft", "/nonexistent/libcufft.so"}};
  for (const auto& arguments : bad) EXPECT_EQ(run_command(arguments), 2) << arguments.front();
}

TEST(FftOptions, say_that_the_build_has_no_fftw) {
  if (!problem_with_fftw()) GTEST_SKIP() << "this build has FFTW";
  testing::internal::CaptureStderr();
  const int code = run_command({"--size", "8", "8", "8"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 2);
  if (rank() == 0) {
    EXPECT_NE(said.find("built with FFTW 3"), std::string::npos) << said;
  }
}

TEST(FftOptions, say_which_grid_an_exchange_cannot_count_and_which_no_memory_holds) {
  const struct {
    const char* exchange;
    const char* side;
    const char* said;
  } grids[] = {{"alltoall", "8192", "which hands the MPI ints"},
               {"alltoallv", "1048576", "which hands the MPI ints"},
               {"partitioned", "8192", "which the system does not give it"},
               {"partitioned", "1048576", "which the system does not give it"}};
  for (const auto& [exchange, side, words] : grids) {
    testing::internal::CaptureStderr();
    const int code = run_command({"--size", side, side, side, "--exchange", exchange});
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, 2) << exchange << " " << side;
    if (rank() != 0) continue;
    EXPECT_NE(said.find(std::string(side) + " x " + side), std::string::npos) << said;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

TEST_F(FftCommand, runs_all_exchanges_and_writes_the_record) {
  const std::string prefix = partita::test::temporary_prefix("fft_test");
  for (const std::string_view decomposition : decomposition_names) {
    EXPECT_EQ(run_command({"--size", "12", "9", "10", "--decomposition", std::string(decomposition), "--iterations",
                           "2", "--slices", "3", "--repeat", "2", "--json", "--output", prefix}),
              0);
    if (rank() != 0) continue;
    std::ifstream record_file(prefix + ".json");
    const auto record = nlohmann::json::parse(record_file);
    EXPECT_EQ(record["app"], "fft");
    EXPECT_EQ(record["job"]["ranks"], ranks());
    EXPECT_EQ(record["problem"]["size"], (std::vector{12, 9, 10}));
    EXPECT_EQ(record["problem"]["decomposition"], decomposition);
    EXPECT_EQ(record["problem"]["spectrum_compared_with"], "one rank");
    for (const std::string_view exchange : exchange_names) {
      const auto& runs = record["runs"][std::string(exchange)];
      EXPECT_EQ(runs.size(), 2U);
      for (const auto& each : runs) {
        EXPECT_EQ(each["right"], true);
        EXPECT_EQ(each["iterations"], 2);
        EXPECT_GT(each["gflops"], 0.0);
        EXPECT_GT(each["exchange_share"], 0.0);
        EXPECT_LE(each["exchange_share"], 1.0);
      }
    }
    std::filesystem::remove(prefix + ".json");
  }
}

TEST_F(FftCommand, runs_each_exchange_behind_its_staged_twin_where_it_is_told_so) {
  const std::string prefix = partita::test::temporary_prefix("fft_test_staged");
  testing::internal::CaptureStdout();
  const int code =
      run_command({"--size", "8", "8", "8", "--iterations", "1", "--staged", "--json", "--output", prefix});
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  if (rank() != 0) return;
  std::ifstream record_file(prefix + ".json");
  const auto record = nlohmann::json::parse(record_file);
  EXPECT_EQ(record["runs"].size(), exchanges_and_twins().size());
  for (const std::string& exchange : exchanges_and_twins()) EXPECT_EQ(record["runs"][exchange].size(), 1U) << exchange;
  EXPECT_EQ(record["runs"]["partitioned-staged"][0].contains("links"), ranks() > 1);
  EXPECT_FALSE(record["runs"]["alltoall"][0].contains("links"));
  ASSERT_EQ(record["notes"], notes_on_twins(nullptr, exchanges_and_twins()));
  for (const std::string note : record["notes"]) EXPECT_NE(said.find("note: " + note), std::string::npos) << said;
  const std::string table = said.substr(said.find("speed-up"));
  EXPECT_LT(table.find("alltoall-staged"), table.find("alltoall "));
  std::filesystem::remove(prefix + ".json");
}

TEST_F(FftCommand, checks_a_large_grid_by_the_definition_and_nothing_where_it_is_told_so) {
  EXPECT_EQ(check_of({128, 128, 128}, true), Against::one_rank);
  EXPECT_EQ(check_of({128, 128, 129}, true), Against::definition);
  EXPECT_EQ(check_of({2, 2, 2}, false), Against::definition);
  EXPECT_EQ(run_command({"--size", "8", "8", "8", "--exchange", "partitioned", "--no-verify", "--iterations", "1"}), 0);
}

TEST_F(FftCommand, ends_with_code_1_on_every_rank_when_the_file_cannot_be_written) {
  EXPECT_EQ(run_command({"--size", "8", "8", "8", "--exchange", "alltoall", "--iterations", "1", "--json", "--output",
                         "/nonexistent/folder/x"}),
            1);
}

}  // namespace
}  // namespace fft
