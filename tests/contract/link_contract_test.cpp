// What every link promises (src/link/link.hpp), tried between two ranks with no layer above the links.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "contract/job_links.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/runs.hpp"

namespace partita::test {
namespace {

Shape random_shape(Random& random, std::int64_t most_bytes) {
  Shape shape;
  shape.send_partitions = random.integer(1, 24);
  shape.recv_partitions = random.integer(1, 24);
  shape.transport_partitions = random.integer(1, shape.send_partitions);
  shape.transfers = random.integer(1, shape.transport_partitions);
  const std::int64_t unit = std::lcm<std::int64_t>(shape.send_partitions, shape.recv_partitions);
  shape.total_bytes = unit * random.integer(0, static_cast<std::int32_t>(std::max<std::int64_t>(most_bytes / unit, 1)));
  return shape;
}

/// Partitions of the sender differ in size, some have no bytes.
Shape random_uneven_shape(Random& random, std::int64_t most_bytes) {
  Shape shape;
  shape.send_partitions = random.integer(1, 24);
  shape.transport_partitions = random.integer(1, shape.send_partitions);
  shape.transfers = random.integer(1, shape.transport_partitions);
  shape.total_bytes = random.between(0, most_bytes);
  shape.send_sizes = random_parts(random, shape.send_partitions, shape.total_bytes);
  return shape;
}

struct LinkCase {
  std::string link;
  Kinds kinds;  ///< where a case leaves the memory open
};

/// Memory that other ranks can map; of a GPU on either side and on both, where GPU memory is wanted.
std::vector<LinkCase> cases() {
  std::vector<LinkCase> all;
  for (const std::string& link : links_under_test()) {
    if (!gpu_memory_is_wanted()) {
      all.push_back({link, MemoryKind::exported});
      continue;
    }
    all.push_back({link, MemoryKind::gpu});
    all.push_back({link, {MemoryKind::gpu, MemoryKind::exported}});
    all.push_back({link, {MemoryKind::exported, MemoryKind::gpu}});
  }
  return all;
}

std::string name_of(const LinkCase& tested) {
  if (!gpu_memory_is_wanted()) return tested.link;
  const auto side = [](MemoryKind kind) { return kind == MemoryKind::gpu ? "gpu" : "host"; };
  return fmt::format("{}_{}_to_{}", tested.link, side(tested.kinds.send), side(tested.kinds.recv));
}

/// Two ranks, all links; a case that a link refuses for its memory or size is skipped with the link's reason.
class LinkContract : public testing::TestWithParam<LinkCase> {
 protected:
  void SetUp() override {
    const memory::Kind from = kind_of(kinds().send), to = kind_of(kinds().recv);
    JobLinks links;
    if (!links.named(link()).capabilities().moves(from, to)) {
      GTEST_SKIP() << fmt::format("link {} itself moves nothing between {} and {} memory", link(),
                                  memory::name_of(from), memory::name_of(to));
    }
  }
  void TearDown() override { harness_barrier(); }

  static memory::Kind kind_of(MemoryKind kind) {
    return kind == MemoryKind::gpu ? memory::Kind::device : memory::Kind::host_exported;
  }
  const std::string& link() const { return GetParam().link; }
  Kinds kinds() const { return GetParam().kinds; }

  bool can(const Pair& pair, const std::string& what) {
    if (!pair.refusal()) return true;
    EXPECT_FALSE(pair.refusal()->empty());
    refused_ = fmt::format("link {} refuses {}: {}", link(), what, *pair.refusal());
    return false;
  }

  std::string refused_;
};

#define PARTITA_SKIP_IF_REFUSED(pair, what) \
  if (!can(pair, what)) GTEST_SKIP() << refused_

TEST_P(LinkContract, bytes_lie_there_when_the_flag_says_so) {
  JobLinks links;
  Random random(job_seed());
  Epoch epoch = no_epoch;
  for (int request = 0; request < 40; ++request) {
    const std::int64_t most_bytes = request % 8 < 2 ? 3'000'000 : 40'000;
    const Shape shape = request % 2 == 0 ? random_shape(random, most_bytes) : random_uneven_shape(random, most_bytes);
    const int from = random.integer(0, 1);
    step(to_string(shape));
    Pair pair(links, link(), shape, kinds(), from, 1 - from);
    PARTITA_SKIP_IF_REFUSED(pair, to_string(shape));
    for (int repeat = 0; repeat < 5; ++repeat) {
      epoch = next(epoch);
      const auto order = random.permutation(shape.transport_partitions);
      if (pair.receives()) {
        pair.receiver->open(epoch);
        for (const std::int32_t t : random.permutation(shape.transport_partitions)) pair.expect_arrival(t, epoch);
      } else {
        random.permutation(shape.transport_partitions);  // the receiver draws one too
        pair.sender->start(epoch);
        pair.put(epoch, order);
        pair.finish();
      }
      if (HasFailure()) return;
    }
    epoch = no_epoch;
    harness_barrier();
  }
}

/// How an epoch leaves, whichever the link expects: whole, one by one, in runs of any length.
std::vector<link::Range> runs_of_an_epoch(Random& random, std::int32_t transports) {
  if (random.integer(0, 3) == 0) return {{0, transports}};
  if (random.integer(0, 2) > 0) return random_runs(random, transports);
  std::vector<link::Range> runs;
  for (const std::int32_t t : random.permutation(transports)) runs.push_back({t, t + 1});
  return runs;
}

TEST_P(LinkContract, partitions_of_a_run_arrive_each_by_itself) {
  JobLinks links;
  Random random(job_seed());
  for (int request = 0; request < 20; ++request) {
    const Shape shape = random_shape(random, request % 8 < 2 ? 3'000'000 : 40'000);
    step(to_string(shape));
    Pair pair(links, link(), shape, request % 2 == 0 ? kinds() : Kinds(MemoryKind::plain));
    PARTITA_SKIP_IF_REFUSED(pair, to_string(shape));
    for (Epoch epoch = 1; epoch <= 10 && !HasFailure(); ++epoch) {
      if (pair.receives()) {
        Random own(job_seed(), epoch);
        pair.receiver->open(epoch);
        for (const std::int32_t t : own.permutation(shape.transport_partitions)) pair.expect_arrival(t, epoch);
      } else {
        Random own(job_seed(), epoch + 100);
        pair.sender->start(epoch);
        pair.put_runs(epoch, runs_of_an_epoch(own, shape.transport_partitions));
        pair.finish();
      }
    }
    harness_barrier();
  }
}

TEST_P(LinkContract, plain_memory_carries_small_requests) {
  JobLinks links;
  Random random(job_seed());
  for (int request = 0; request < 20; ++request) {
    const Shape shape = random_shape(random, 8000);
    Pair pair(links, link(), shape, MemoryKind::plain);
    PARTITA_SKIP_IF_REFUSED(pair, to_string(shape));
    for (Epoch epoch = 1; epoch <= 5; ++epoch) pair.round(epoch);
    harness_barrier();
  }
}

TEST_P(LinkContract, a_partition_that_is_held_back_has_not_arrived) {
  JobLinks links;
  for (const Shape& shape : {Shape{4, 4, 4, 64}, Shape{4, 4, 4, 400'000}, Shape{4, 4, 4, 64, 1}, Shape{4, 4, 4, 0, 1},
                             Shape{4, 4, 4, 60'000, 1}, Shape{4, 4, 4, 4000, 2}, Shape{4, 4, 4, 400'000, 2}}) {
    step(to_string(shape));
    Pair pair(links, link(), shape, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "4 partitions");
    for (Epoch epoch = 1; epoch <= 3; ++epoch) {
      int acknowledged = 0;
      if (pair.receives()) {
        pair.receiver->open(epoch);
        for (const std::int32_t t : {0, 1, 3}) pair.expect_arrival(t, epoch);
        for (int look = 0; look < 100; ++look) EXPECT_FALSE(pair.receiver->arrived(2, epoch));
        pair.expect_arrival(1, epoch);
        PMPI_Send(&acknowledged, 1, MPI_INT, 0, 1, harness_comm());
        pair.expect_arrival(2, epoch);
      } else {
        pair.sender->start(epoch);
        pair.put(epoch, {3, 0, 1});
        // The others travel while this rank waits without any call of the link but its progress.
        MPI_Request request;
        PMPI_Irecv(&acknowledged, 1, MPI_INT, 1, 1, harness_comm(), &request);
        until(pair.link(), "the receiver has the first partitions", [&] {
          int done = 0;
          PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
          return done != 0;
        });
        pair.put(epoch, {2});
        pair.finish();
      }
    }
    harness_barrier();
  }
}

TEST_P(LinkContract, readiness_follows_the_receivers_open) {
  JobLinks links;
  Pair pair(links, link(), {2, 2, 2, 200'000}, kinds());
  PARTITA_SKIP_IF_REFUSED(pair, "2 partitions");
  bool buffers = false;  // such a link is ready before the receiver is
  for (Epoch epoch = 1; epoch <= 4; ++epoch) {
    harness_barrier();
    if (pair.sends()) {
      pair.sender->start(epoch);
      buffers = buffers || pair.sender->ready(epoch);
      if (!buffers) {
        for (int look = 0; look < 100; ++look) EXPECT_FALSE(pair.sender->ready(epoch));
        EXPECT_FALSE(pair.sender->prepared(epoch)) << "prepared implies ready";
      }
    }
    harness_barrier();
    if (pair.receives()) {
      pair.receiver->open(epoch);
      pair.expect_all(epoch);
    } else {
      EXPECT_TRUE(until(pair.link(), "the receiver has opened", [&] { return pair.sender->prepared(epoch); }));
      EXPECT_TRUE(pair.sender->ready(epoch));
      pair.put(epoch);
      pair.finish();
      EXPECT_TRUE(pair.sender->prepared(epoch)) << "a promise kept stays a promise";
    }
  }
}

TEST_P(LinkContract, several_threads_put_at_once) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  JobLinks links;
  constexpr std::int32_t threads = 4;
  constexpr std::int32_t each = 16;
  constexpr std::int32_t count = threads * each;
  const auto in_threads = [](auto work) {
    std::vector<std::jthread> team;
    for (std::int32_t thread = 0; thread < threads; ++thread) team.emplace_back([=] { work(thread); });
  };
  Random random(job_seed());
  for (const Shape& shape : {Shape{count, 8, count, count * 8}, Shape{count, 8, count, count * 20'000},
                             Shape{count, 8, count, count * 8, 1}, Shape{count, 8, count, count * 5000, 7}}) {
    step(to_string(shape));
    Pair pair(links, link(), shape, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "64 partitions");
    for (Epoch epoch = 1; epoch <= 20; ++epoch) {
      const std::vector<link::Range> runs = runs_of_an_epoch(random, count);
      if (pair.receives()) {
        pair.receiver->open(epoch);
        in_threads([&](std::int32_t thread) {
          for (std::int32_t t = thread; t < count; t += threads) pair.expect_arrival(t, epoch);
        });
      } else {
        pair.sender->start(epoch);
        until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
        in_threads([&](std::int32_t thread) {
          for (std::size_t i = static_cast<std::size_t>(thread); i < runs.size(); i += threads) {
            pair.buffer().fill(epoch, link::bytes_of(pair.plan(), runs[i]));
            pair.sender->put(runs[i], epoch);
          }
        });
        pair.finish();
      }
      if (HasFailure()) return;
    }
    harness_barrier();
  }
}

TEST_P(LinkContract, epochs_pass_the_wrap_around) {
  const Epoch before_first = 0xffffffffu - 20;
  JobLinks links(before_first);
  for (const std::int64_t total_bytes : {48, 240'000}) {
    Pair pair(links, link(), {6, 3, 6, total_bytes}, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "6 partitions");
    Epoch epoch = before_first;
    for (int count = 0; count < 50 && !HasFailure(); ++count) {
      epoch = next(epoch);
      pair.round(epoch);
    }
    harness_barrier();
  }
}

TEST_P(LinkContract, what_landed_stays_until_the_next_open) {
  JobLinks links;
  for (const Kinds kind : {Kinds(MemoryKind::plain), kinds()}) {
    Pair pair(links, link(), {4, 2, 4, 4096}, kind);
    PARTITA_SKIP_IF_REFUSED(pair, "4 KiB");
    for (Epoch epoch = 1; epoch <= 10; ++epoch) {
      pair.round(epoch);
      harness_barrier();
      if (pair.sends()) {
        pair.sender->start(next(epoch));  // may not disturb what lies there
        pair.sender->ready(next(epoch));
      }
      harness_barrier();
      if (pair.receives()) pair.expect_all(epoch);
    }
  }
}

TEST_P(LinkContract, partitions_of_no_bytes_arrive_too) {
  JobLinks links;
  for (const Kinds kind : {Kinds(MemoryKind::plain), kinds()}) {
    Pair pair(links, link(), {5, 3, 5, 0}, kind);
    PARTITA_SKIP_IF_REFUSED(pair, "no bytes");
    for (Epoch epoch = 1; epoch <= 5; ++epoch) pair.round(epoch);
    harness_barrier();
  }
}

TEST_P(LinkContract, one_aggregated_transfer_carries_all_partitions) {
  JobLinks links;
  for (const std::int64_t total_bytes : {7 * 64, 7 * 100'000}) {
    Pair pair(links, link(), {7, 1, 1, total_bytes}, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "one transfer");
    for (Epoch epoch = 1; epoch <= 5; ++epoch) pair.round(epoch);
    harness_barrier();
  }
}

TEST_P(LinkContract, a_rank_sends_to_itself) {
  JobLinks links;
  for (const std::int64_t total_bytes : {96, 600'000}) {
    Pair pair(links, link(), {6, 4, 3, total_bytes}, kinds(), rank(), rank());
    PARTITA_SKIP_IF_REFUSED(pair, "a message to itself");
    for (Epoch epoch = 1; epoch <= 5; ++epoch) pair.round(epoch);
  }
}

TEST_P(LinkContract, many_requests_live_side_by_side) {
  JobLinks links;
  Random random(job_seed());
  constexpr int count = 300;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int request = 0; request < count; ++request) {
    const int from = request % 2;
    pairs.push_back(std::make_unique<Pair>(links, link(), random_shape(random, 30'000), kinds(), from, 1 - from));
    PARTITA_SKIP_IF_REFUSED(*pairs.back(), "many requests");
  }
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    for (const std::int32_t index : random.permutation(count)) {
      Pair& pair = *pairs[static_cast<std::size_t>(index)];
      if (pair.receives()) pair.receiver->open(epoch);
      if (pair.sends()) pair.sender->start(epoch);
    }
    for (const std::int32_t index : random.permutation(count)) {
      Pair& pair = *pairs[static_cast<std::size_t>(index)];
      if (pair.sends()) pair.put(epoch);
    }
    for (const std::int32_t index : random.permutation(count)) {
      Pair& pair = *pairs[static_cast<std::size_t>(index)];
      if (pair.receives()) pair.expect_all(epoch);
      if (pair.sends()) pair.finish();
    }
    if (HasFailure()) return;
  }
  harness_barrier();
  for (const int index : Random(job_seed(), static_cast<std::uint64_t>(rank())).permutation(count))
    pairs[static_cast<std::size_t>(index)].reset();
}

TEST_P(LinkContract, either_side_may_go_first) {
  JobLinks links;
  for (int request = 0; request < 20; ++request) {
    Pair pair(links, link(), {3, 3, 3, request % 2 == 0 ? 60 : 300'000}, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "3 partitions");
    pair.round(1);
    if (rank() == request / 2 % 2) pair.sender.reset(), pair.receiver.reset();
    harness_barrier();
  }
}

TEST_P(LinkContract, a_sender_that_was_never_matched_goes_quietly) {
  JobLinks links;
  const Buffer buffer(links, kinds().send, 4096);
  auto made = links.named(link()).sender(buffer.endpoint(1 - rank()));
  if (const auto* refused = std::get_if<link::Refusal>(&made))
    GTEST_SKIP() << "link " << link() << ": " << refused->reason;
  auto& sender = std::get<std::unique_ptr<link::Sender>>(made);
  sender->offer();
  sender.reset();
}

TEST_P(LinkContract, requests_freed_and_made_again_find_no_old_flags) {
  JobLinks links;
  for (int request = 0; request < 200; ++request) {
    Pair pair(links, link(), {8, 8, 8, 512}, kinds());
    PARTITA_SKIP_IF_REFUSED(pair, "8 partitions");
    if (pair.receives()) {
      pair.receiver->open(1);
      for (std::int32_t t = 0; t < pair.transports(); ++t) EXPECT_FALSE(pair.receiver->arrived(t, 1));
    }
    harness_barrier();
    if (pair.receives()) {
      pair.expect_all(1);
    } else {
      pair.sender->start(1);
      pair.put(1);
      pair.finish();
    }
    harness_barrier();
  }
}

/// A kernel that waits for flags of the GPU would wait for ever for a sender that raises those of the host.
TEST_P(LinkContract, both_sides_have_a_route_for_kernels_or_neither) {
  JobLinks links;
  Pair pair(links, link(), {4, 4, 4, 4096}, kinds());
  PARTITA_SKIP_IF_REFUSED(pair, "4 KiB");
  harness_barrier();  // neither side goes before the other has connected
  int routes[] = {pair.sender_facts.has_device_route ? 1 : 0, pair.receiver_facts.has_device_route ? 1 : 0};
  if (routes[0] != 0) {
    EXPECT_NE(pair.sender->device_route().arrival_device, nullptr);
  }
  if (routes[1] != 0) {
    EXPECT_NE(pair.receiver->device_route().arrival_device, nullptr);
  }
  PMPI_Allreduce(MPI_IN_PLACE, routes, 2, MPI_INT, MPI_SUM, harness_comm());
  EXPECT_EQ(routes[0], routes[1]);
  const bool kernels_put = pair.link().capabilities().kernels_put(kind_of(kinds().send), kind_of(kinds().recv));
  EXPECT_EQ(routes[0] != 0, kernels_put) << "as the link says of itself";
}

/// Who polls by them asks the link for nothing more.
TEST_P(LinkContract, flags_in_host_memory_tell_of_arrivals_where_the_link_says_so) {
  JobLinks links;
  Pair pair(links, link(), {4, 4, 4, 4096}, kinds());
  PARTITA_SKIP_IF_REFUSED(pair, "4 KiB");
  const bool on_hosts = kinds().send != MemoryKind::gpu && kinds().recv != MemoryKind::gpu;
  for (Epoch epoch = 1; epoch <= 4; ++epoch) {
    if (pair.receives()) pair.receiver->open(epoch);
    harness_barrier();
    const auto& flags = pair.receiver_facts.host_flags;
    if (pair.receives()) {
      EXPECT_EQ(flags.has_value(), on_hosts && pair.link().capabilities().host_flags);
    }
    const auto first_missing = [&] { return flags ? flags->first_not_raised({0, 4}, epoch) : 0; };
    EXPECT_EQ(first_missing(), 0);
    harness_barrier();
    if (pair.sends()) {
      pair.sender->start(epoch);
      pair.put(epoch);
    }
    if (pair.receives()) pair.expect_all(epoch);
    EXPECT_EQ(first_missing(), flags ? 4 : 0);
    if (pair.sends()) pair.finish();
  }
}

TEST_P(LinkContract, the_description_is_one_line) {
  JobLinks links;
  Pair pair(links, link(), {1, 1, 1, 64}, kinds());
  PARTITA_SKIP_IF_REFUSED(pair, "64 bytes");
  harness_barrier();  // neither side goes before the other has connected
  if (!pair.receives()) return;
  const std::string text = pair.way;
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Links, LinkContract, testing::ValuesIn(cases()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace partita::test
