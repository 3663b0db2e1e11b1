// Every benchmark on two ranks with few samples, and what the harness does about a subject that delivers wrong data.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>

#include "bench/function_calls.hpp"
#include "bench/persistent_subject.hpp"
#include "bench/run.hpp"
#include "bench/subjects.hpp"
#include "bench/two_nodes.hpp"
#include "bench/two_sided.hpp"
#include "support/job.hpp"

namespace partita::bench {
namespace {

Options few_samples(const Benchmark& benchmark) {
  Options options;
  options.benchmark = benchmark.name;
  benchmark.set_defaults(options);
  options.min_bytes = 64;
  options.max_bytes = 128 * 1024;
  options.iterations = 4;
  options.warmup = 1;
  options.batch = benchmark.timed_in_batches ? 3 : 0;
  options.window = 2;
  options.check_every_sample = true;
  if (benchmark.compares_subjects) options.partitions = {1, 8};
  if (options.delay.compute_us > 0) options.delay.compute_us = 50;
  return options;
}

/// They run on any number of ranks, and compare what no other benchmark does.
bool is_of_a_collective(const Benchmark& benchmark) {
  return benchmark.ranks == Ranks::any && benchmark.metric_title == "x_mpi";
}

class EveryBenchmark : public testing::TestWithParam<std::string> {
 protected:
  static const Benchmark& benchmark() {
    return *std::find_if(benchmarks().begin(), benchmarks().end(),
                         [](const Benchmark& b) { return b.name == GetParam(); });
  }
};

const Benchmark& benchmark_named(std::string_view name) {
  return *std::find_if(benchmarks().begin(), benchmarks().end(), [&](const Benchmark& b) { return b.name == name; });
}

Results measure(const Benchmark& benchmark, const Options& options) {
  Job job(MPI_COMM_WORLD, options);
  Subjects subjects;
  if (benchmark.compares_subjects) subjects = make_subjects(options, job.comm);
  return run(benchmark, job, subjects);
}

TEST_P(EveryBenchmark, gives_each_subject_a_row_with_all_its_samples) {
  test::step(GetParam());
  Options options = few_samples(benchmark());
  options.threads = benchmark().compares_subjects ? 2 : 1;
  const Results results = measure(benchmark(), options);
  const std::size_t sizes = 12;  // 64 to 128 Ki, doubling
  EXPECT_EQ(results.rows.size(), benchmark().compares_subjects ? sizes * 2 * 2 : sizes * 4);
  for (const Row& row : results.rows) {
    EXPECT_EQ(row.samples.size(), 4U);
    for (const double sample : row.samples) EXPECT_GE(sample, 0);
    EXPECT_EQ(row.link.link.empty(), row.subject != "partita-c") << row.subject;
  }
}

TEST_P(EveryBenchmark, measures_buffers_of_the_allocating_calls_too) {
  if (!benchmark().compares_subjects) GTEST_SKIP() << "has buffers of its own";
  test::step(GetParam());
  Options options = few_samples(benchmark());
  options.memory = Memory::alloc;
  options.min_bytes = options.max_bytes;
  EXPECT_EQ(measure(benchmark(), options).rows.size(), 2U * 2U);
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryBenchmark,
    [] {
      std::vector<std::string> names;
      for (const Benchmark& benchmark : benchmarks()) {
        const bool has_tests_of_its_own = benchmark.name == "progress" || benchmark.name == "first-contact" ||
                                          benchmark.also_on_gpu || is_of_a_collective(benchmark);
        if (!benchmark.on_gpu && !has_tests_of_its_own) names.emplace_back(benchmark.name);
      }
      return testing::ValuesIn(names);
    }(),
    [](const auto& info) {
      std::string name = info.param;
      for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
      return name;
    });

/// The neighbours are so late that even a slow machine sees a partition that does not wait for them.
TEST(LateNeighbours, a_partition_arrives_alone_and_a_whole_message_does_not) {
  const Benchmark& benchmark = benchmark_named("late-neighbours");
  Options options = few_samples(benchmark);
  options.min_bytes = options.max_bytes;
  options.partitions = {8};
  options.iterations = 2;
  options.delay.compute_us = 500'000;
  for (const int close_epochs : {0, 10}) {
    test::step("late-neighbours behind " + std::to_string(close_epochs) + " close epochs");
    options.close_epochs = close_epochs;
    for (const Row& row : measure(benchmark, options).rows) {
      const bool whole = row.subject == persistent_name;
      EXPECT_EQ(row.early, whole ? 0 : options.iterations) << row.subject;
      if (test::rank() == 0 && whole) {
        EXPECT_GE(row.statistics.min, options.delay.compute_us);
      }
    }
  }
}

/// Sends as the persistent subject does. Notes which calls mark, request by request and epoch by epoch, and can lose
/// what one epoch of each request brings.
class Watched final : public Subject {
 public:
  using Calls = std::vector<std::pair<int, int>>;  ///< of mark, in one epoch
  using Request = std::vector<Calls>;

  Watched(MPI_Comm comm, std::size_t lost_epoch)
      : inner_(make_persistent(comm, Memory::plain)), lost_epoch_(lost_epoch) {}

  std::string name() const override { return "watched"; }
  Buffer allocate(std::size_t size_bytes) override { return inner_->allocate(size_bytes); }
  std::unique_ptr<Sending> sending(const Message& message) override {
    requests.emplace_back();
    return std::make_unique<Sender>(inner_->sending(message), requests);
  }
  std::unique_ptr<Receiving> receiving(const Message& message) override {
    return std::make_unique<Receiver>(inner_->receiving(message), message, lost_epoch_);
  }

  std::vector<Request> requests;  ///< of the sender

 private:
  class Sender final : public Sending {
   public:
    Sender(std::unique_ptr<Sending> inner, std::vector<Request>& requests)
        : inner_(std::move(inner)), requests_(requests) {}
    void start() override {
      requests_.back().emplace_back();
      inner_->start();
    }
    void mark(int first, int last) override {
      requests_.back().back().emplace_back(first, last);
      inner_->mark(first, last);
    }
    void release() override { inner_->release(); }
    void wait() override { inner_->wait(); }

   private:
    std::unique_ptr<Sending> inner_;
    std::vector<Request>& requests_;
  };
  class Receiver final : public Receiving {
   public:
    Receiver(std::unique_ptr<Receiving> inner, const Message& message, std::size_t lost_epoch)
        : inner_(std::move(inner)), message_(message), lost_epoch_(lost_epoch) {}
    void start() override {
      before_.assign(message_.bytes.begin(), message_.bytes.end());
      inner_->start();
    }
    bool arrived(int partition) override { return inner_->arrived(partition); }
    void wait() override {
      inner_->wait();
      if (++epochs_ == lost_epoch_) std::copy(before_.begin(), before_.end(), message_.bytes.begin());
    }

   private:
    std::unique_ptr<Receiving> inner_;
    Message message_;
    std::size_t lost_epoch_;
    std::size_t epochs_ = 0;
    std::vector<std::byte> before_;
  };
  std::unique_ptr<Subject> inner_;
  std::size_t lost_epoch_;
};

/// The requests of a run with 3 close epochs before each of 2 samples.
std::vector<Watched::Request> run_watched(std::size_t lost_epoch = 0) {
  test::step("late-neighbours behind close epochs, watched");
  const Benchmark& benchmark = benchmark_named("late-neighbours");
  Options options = few_samples(benchmark);
  options.min_bytes = options.max_bytes = 64;
  options.partitions = {8};
  options.iterations = 2;
  options.warmup = 0;
  options.close_epochs = 3;
  Job job(MPI_COMM_WORLD, options);
  Subjects subjects;
  subjects.push_back(std::make_unique<Watched>(job.comm, lost_epoch));
  run(benchmark, job, subjects);
  return static_cast<const Watched&>(*subjects.front()).requests;
}

TEST(LateNeighbours, each_sample_has_a_request_of_its_own_with_close_epochs_before) {
  std::vector<Watched::Request> requests = run_watched();
  if (test::rank() != 0) return;
  ASSERT_EQ(requests.size(), 1U + 3 + 2) << "one that tells the link, and those of the check and of the samples";
  requests.erase(requests.begin());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const int first = static_cast<int>(i);
    const Watched::Calls close{{0, 8}};
    const Watched::Calls late{{first, first + 1}, {0, first}, {first + 1, 8}};
    EXPECT_EQ(requests[i], (Watched::Request{close, close, close, late})) << "sample " << i;
  }
}

TEST(LateNeighbours, what_close_epochs_have_brought_is_not_taken_for_the_samples_data) {
  EXPECT_THROW(run_watched(4), Failure);
}

TEST(BenchmarksOfCollectives, give_each_way_a_row_for_each_size) {
  int collectives = 0;
  for (const Benchmark& benchmark : benchmarks()) {
    if (!is_of_a_collective(benchmark)) continue;
    test::step(std::string(benchmark.name));
    ++collectives;
    Options options = few_samples(benchmark);
    options.delay.compute_us = 20;
    options.partitions = {4};
    const Results results = measure(benchmark, options);
    ASSERT_EQ(results.rows.size(), 12U * 3) << benchmark.name;
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const Row& row = results.rows[i];
      EXPECT_EQ(row.subject, (std::array{"mpi", "partita-c", "one-partition"})[i % 3]);
      EXPECT_EQ(row.samples.size(), 4U);
      EXPECT_EQ(row.link.link.empty(), row.subject == "mpi") << benchmark.name;
    }
  }
  EXPECT_EQ(collectives, 5);
}

TEST(FirstContact, is_one_sample_of_each_subject_beside_those_of_ranks_that_know_each_other) {
  test::step("first-contact");
  const Benchmark& benchmark = benchmark_named("first-contact");
  Options options;
  options.benchmark = benchmark.name;
  benchmark.set_defaults(options);
  EXPECT_TRUE(options.check_every_sample);
  options.iterations = 4;
  options.peers = {"isend"};
  const Results results = measure(benchmark, options);
  ASSERT_EQ(results.rows.size(), 6U);
  for (const Row& row : results.rows) {
    const bool again = row.subject.ends_with("-again");
    EXPECT_EQ(row.samples.size(), again ? 4U : 1U) << row.subject;
    EXPECT_EQ(row.reference, again ? "persistent-again" : "persistent");
    EXPECT_EQ(row.link.link.empty(), !row.subject.starts_with("partita-c")) << row.subject;
    if (test::rank() == 0) {
      EXPECT_GT(row.statistics.min, 0) << row.subject;
    }
  }
}

TEST(FirstContact, several_sizes_are_refused_since_ranks_meet_once) {
  const Benchmark& benchmark = benchmark_named("first-contact");
  Options options;
  benchmark.set_defaults(options);
  options.min_bytes = options.max_bytes / 2;
  EXPECT_THROW(measure(benchmark, options), Failure);
}

/// A generous limit: what was measured on an idle machine is a thousandth of it.
TEST(ProgressBenchmark, sees_a_process_with_a_thousand_idle_requests_sleep) {
  test::step("progress");
  const Benchmark& benchmark = benchmark_named("progress");
  Options options;
  options.benchmark = benchmark.name;
  benchmark.set_defaults(options);
  options.partitions = {1, 100};
  options.iterations = 3;
  const Results results = measure(benchmark, options);
  EXPECT_EQ(results.rows.size(), 2U * 4U);
  for (const Row& row : results.rows) {
    EXPECT_GE(row.statistics.min, 0) << row.subject;
    if (row.subject == "asleep-idle") {
      EXPECT_LE(row.statistics.median, 50'000) << "microseconds of processor time in a second";
    }
  }
}

TEST(TwoSided, compares_the_mpis_own_calls_with_the_standard_names_on_host_memory) {
  for (const char* name : {"two-sided", "channel.fig11", "channel.fig13"}) {
    test::step(name);
    const Results results = measure(benchmark_named(name), few_samples(benchmark_named(name)));
    ASSERT_EQ(results.rows.size(), 12U * 2) << name;
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const Row& row = results.rows[i];
      EXPECT_EQ(row.subject, (std::array{"mpi-host", "host"})[i % 2]);
      EXPECT_EQ(row.reference, "mpi-host");
      EXPECT_EQ(row.samples.size(), 4U);
      if (test::rank() == 0) {
        EXPECT_GT(row.statistics.min, 0) << row.subject;
      }
    }
  }
}

TEST(TwoSided, the_parts_of_a_message_are_those_of_a_whole) {
  test::step("two-sided --split");
  const Benchmark& benchmark = benchmark_named("two-sided");
  Options options = few_samples(benchmark);
  options.split = true;
  options.min_bytes = options.max_bytes;
  const Results results = measure(benchmark, options);
  ASSERT_EQ(results.rows.size(), 3U);
  EXPECT_EQ(results.rows[0].subject, "c-api");
  EXPECT_EQ(results.rows[1].subject, "c-api:mpi");
  EXPECT_EQ(results.rows[2].subject, "c-api:own");
  for (const Row& row : results.rows) EXPECT_EQ(row.reference, "c-api");
  if (test::rank() == 0) {
    EXPECT_DOUBLE_EQ(results.rows[0].metric, 100);
  }
}

TEST(TwoSided, messages_between_nodes_need_two_nodes) {
  for (const char* name : {"channel.fig12", "channel.fig14"}) {
    test::step(name);
    try {
      measure(benchmark_named(name), few_samples(benchmark_named(name)));
      FAIL() << name << " has measured between ranks of one node";
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find("The ranks are of one node"), std::string::npos) << failure.what();
    }
  }
}

TEST(TwoSided, no_more_than_128_MiB_are_in_flight) {
  Options options;
  options.window = 64;
  EXPECT_EQ(messages_in_flight({1, 1}, options), 64);
  EXPECT_EQ(messages_in_flight({2 << 20, 1}, options), 64);
  EXPECT_EQ(messages_in_flight({64 << 20, 1}, options), 2);
  EXPECT_EQ(messages_in_flight({1 << 30, 1}, options), 1);
}

/// The calls of the MPI's, but a byte of what is received is wrong; in a window of the last message.
namespace wrong_byte {

constexpr int messages = 3;
std::byte* received = nullptr;
int waits = 0;

int spoilt(int code) {
  received[7] ^= std::byte{0x10};
  return code;
}
int recv(void* buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  received = static_cast<std::byte*>(buffer);
  return spoilt(own_calls().recv(buffer, count, datatype, source, tag, comm, status));
}
int irecv(void* buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  received = static_cast<std::byte*>(buffer);
  return own_calls().irecv(buffer, count, datatype, source, tag, comm, request);
}
int wait(MPI_Request* request, MPI_Status* status) {
  const int code = own_calls().wait(request, status);
  return received != nullptr && ++waits % messages == 0 ? spoilt(code) : code;
}

MessageCalls calls() {
  MessageCalls calls = own_calls();
  calls.recv = recv;
  calls.irecv = irecv;
  calls.wait = wait;
  received = nullptr;
  waits = 0;
  return calls;
}

}  // namespace wrong_byte

void expect_that_the_wrong_byte_is_noticed(std::string_view name, decltype(Benchmark::contenders) contenders) {
  test::step(std::string(name) + " with a wrong byte");
  Benchmark benchmark = benchmark_named(name);
  benchmark.contenders = contenders;
  Options options = few_samples(benchmark);
  options.max_bytes = options.min_bytes;
  options.window = wrong_byte::messages;
  testing::internal::CaptureStderr();
  try {
    measure(benchmark, options);
    ADD_FAILURE() << "the wrong byte was not noticed";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("corrupting delivered wrong data"), std::string::npos) << failure.what();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  if (test::rank() == 1) {
    EXPECT_NE(said.find("wrong data: rank 1"), std::string::npos) << said;
    EXPECT_NE(said.find("offset 7: expected"), std::string::npos) << said;
  }
}

template <auto make>
std::vector<Contender> corrupting(Job& job, const Subjects&, const Case& c) {
  std::vector<Contender> contenders;
  contenders.push_back({"corrupting", "corrupting", make(job, "corrupting", c, wrong_byte::calls())});
  return contenders;
}

TEST(TwoSided, a_wrong_byte_ends_the_benchmark_on_both_ranks) {
  expect_that_the_wrong_byte_is_noticed("two-sided", corrupting<make_round_trip>);
  expect_that_the_wrong_byte_is_noticed("channel.fig13", corrupting<make_window>);
}

/// Sends as the persistent subject does, but the receiver changes one byte afterwards.
class Corrupting final : public Subject {
 public:
  explicit Corrupting(std::unique_ptr<Subject> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return "corrupting"; }
  Buffer allocate(std::size_t size_bytes) override { return inner_->allocate(size_bytes); }
  std::unique_ptr<Sending> sending(const Message& message) override { return inner_->sending(message); }
  std::unique_ptr<Receiving> receiving(const Message& message) override {
    return std::make_unique<Receiver>(inner_->receiving(message), message);
  }

 private:
  class Receiver final : public Receiving {
   public:
    Receiver(std::unique_ptr<Receiving> inner, const Message& message) : inner_(std::move(inner)), message_(message) {}
    void start() override { inner_->start(); }
    bool arrived(int partition) override { return inner_->arrived(partition); }
    void wait() override {
      inner_->wait();
      message_.bytes[message_.bytes.size() / 2] ^= std::byte{0x10};
    }

   private:
    std::unique_ptr<Receiving> inner_;
    Message message_;
  };
  std::unique_ptr<Subject> inner_;
};

TEST(Harness, wrong_data_ends_the_benchmark_on_both_ranks) {
  const Benchmark& latency = benchmarks().front();
  Options options = few_samples(latency);
  options.faces.clear();
  Job job(MPI_COMM_WORLD, options);
  Subjects subjects = make_subjects(options, job.comm);
  subjects.push_back(std::make_unique<Corrupting>(make_persistent(job.comm, Memory::plain)));
  try {
    run(latency, job, subjects);
    FAIL() << "the wrong byte was not noticed";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("corrupting delivered wrong data"), std::string::npos) << failure.what();
  }
}

/// Notes whose turn it is and measures nothing.
class Noting final : public Measurement {
 public:
  explicit Noting(int number) : number_(number) {}
  void prepare(std::uint64_t) override {}
  double sample(const Round&) override {
    turns.push_back(number_);
    return 1;
  }
  bool compare(std::uint64_t) const override { return true; }

  static inline std::vector<int> turns;  ///< the numbers in the order of the calls

 private:
  int number_;
};

/// Whose turn it was on this rank, round after round, without the check and the warm-up before.
std::vector<std::vector<int>> rounds_of(std::uint64_t seed) {
  constexpr int contenders = 5;
  Benchmark noting = benchmarks().front();
  noting.timed_in_batches = false;
  noting.contenders = [](Job&, const Subjects&, const Case&) {
    std::vector<Contender> all;
    for (int i = 0; i < contenders; ++i) all.push_back({std::to_string(i), "0", std::make_unique<Noting>(i)});
    return all;
  };
  Options options = few_samples(noting);
  options.check_every_sample = false;
  options.partitions = {1};
  options.max_bytes = options.min_bytes;
  options.iterations = 20;
  options.seed = seed;
  Noting::turns.clear();
  Job job(MPI_COMM_WORLD, options);
  run(noting, job, {});
  std::vector<std::vector<int>> rounds;
  for (std::size_t at = Noting::turns.size() - contenders * 20; at < Noting::turns.size(); ++at) {
    if (rounds.empty() || rounds.back().size() == contenders) rounds.emplace_back();
    rounds.back().push_back(Noting::turns[at]);
  }
  return rounds;
}

TEST(Harness, rounds_have_orders_of_their_own_which_the_seed_decides_and_all_ranks_share) {
  const std::vector<std::vector<int>> rounds = rounds_of(7);
  ASSERT_EQ(rounds.size(), 20U);
  std::set<std::vector<int>> orders(rounds.begin(), rounds.end());
  EXPECT_GT(orders.size(), 10U);  // of 120
  EXPECT_EQ(rounds_of(7), rounds);
  EXPECT_NE(rounds_of(8), rounds);
  std::vector<int> mine;
  for (const auto& round : rounds) mine.insert(mine.end(), round.begin(), round.end());
  std::vector<int> first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_INT, 0, MPI_COMM_WORLD);
  EXPECT_EQ(mine, first);
}

TEST(Harness, sizes_that_do_not_divide_are_noted_and_left_out) {
  const Benchmark& latency = benchmarks().front();
  Options options = few_samples(latency);
  options.faces.clear();
  options.partitions = {128};
  options.max_bytes = 128;
  const Results results = measure(latency, options);
  EXPECT_EQ(results.rows.size(), 1U);
  ASSERT_EQ(results.notes.size(), 1U);
  EXPECT_NE(results.notes[0].find("64 bytes do not divide into 128 partitions"), std::string::npos);
  options.max_bytes = 64;
  EXPECT_THROW(measure(latency, options), Failure);
}

TEST(Peers, a_library_that_is_missing_or_lacks_the_calls_is_a_failure) {
  EXPECT_THROW(library_calls("/no/such/library.so"), std::runtime_error);
  EXPECT_THROW(library_calls("libc.so.6"), std::runtime_error);
}

/// Each partition is a message of its own, so the first one does not wait for the others.
TEST(Peers, messages_of_a_thread_each_go_when_they_are_marked) {
  test::step("isend");
  const Benchmark& benchmark = benchmark_named("late-neighbours");
  Options options = few_samples(benchmark);
  options.min_bytes = options.max_bytes = 8 * 1024;
  options.partitions = {8};
  options.iterations = 2;
  options.delay.compute_us = 500'000;
  options.faces.clear();
  options.peers = {"isend"};
  const Results results = measure(benchmark, options);
  ASSERT_EQ(results.rows.size(), 2U);
  EXPECT_EQ(results.rows[1].subject, "isend");
  EXPECT_EQ(results.rows[1].early, options.iterations);
}

TEST(Peers, several_threads_send_their_partitions_side_by_side) {
  test::step("isend, several threads");
  const Benchmark& benchmark = benchmark_named("bw");
  Options options = few_samples(benchmark);
  options.min_bytes = options.max_bytes;
  options.partitions = {32};
  options.threads = 3;
  options.memory = Memory::alloc;
  options.peers = {"isend"};
  for (const Row& row : measure(benchmark, options).rows) EXPECT_GT(row.statistics.min, 0) << row.subject;
}

TEST(Peers, a_library_gets_the_info_keys_behind_its_path) {
  test::step("a library with info keys");
  const Benchmark& benchmark = benchmark_named("latency");
  Options options = few_samples(benchmark);
  options.min_bytes = options.max_bytes;
  options.faces.clear();
  options.peers = {"library:" PARTITA_BENCH_PEER "?greeting=hello"};
  const Results results = measure(benchmark, options);
  ASSERT_EQ(results.rows.size(), 2U * 2U);
  EXPECT_TRUE(results.rows[1].subject.ends_with("bench_peer?greeting=hello")) << results.rows[1].subject;
  options.peers = {"library:" PARTITA_BENCH_PEER};
  EXPECT_THROW(measure(benchmark, options), Failure);
}

TEST(Peers, the_standard_names_are_not_taken_for_partitas_without_the_drop_in) {
  if (drop_in_is_loaded()) GTEST_SKIP() << "the drop-in is loaded";
  EXPECT_THROW(drop_in_calls(), Failure);
}

/// What `call` says when it fails; empty where it does not.
template <class Call>
std::string failure_of(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(TwoNodes, are_refused_to_an_odd_number_of_ranks) {
  const std::string said = failure_of([] { const Job job(MPI_COMM_SELF, {}, Ranks::even); });
  EXPECT_NE(said.find("an even number of ranks"), std::string::npos) << said;
  EXPECT_NE(said.find("not 1: start it with mpirun -n 8"), std::string::npos) << said;
}

TEST(TwoNodes, are_refused_on_a_machine_that_is_not_divided) {
  Job job(MPI_COMM_WORLD, {}, Ranks::even);
  const std::string said = failure_of([&] { find_two_nodes(job); });
  EXPECT_NE(said.find("PARTITA_NODES=2 makes two of it"), std::string::npos) << said;
  EXPECT_TRUE(job.notes.empty());
}

TEST(TwoNodes, of_one_machine_are_found_once_and_noted) {
  setenv("PARTITA_NODES", "2", 1);
  {
    Job job(MPI_COMM_WORLD, {}, Ranks::even);
    const auto nodes = find_two_nodes(job);
    EXPECT_EQ(nodes->ranks_of_a_node(), 1);
    EXPECT_EQ(nodes, find_two_nodes(job));
    ASSERT_EQ(job.notes.size(), 1U);
    EXPECT_NE(job.notes[0].find("no network is measured"), std::string::npos) << job.notes[0];
  }
  unsetenv("PARTITA_NODES");
}

}  // namespace
}  // namespace partita::bench
