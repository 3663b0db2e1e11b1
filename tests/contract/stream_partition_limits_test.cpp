// Time limits of partitioned requests whose epochs kernels open, in queues of streams. On streams of the fake GPU;
// functions stand for kernels.
#include <gtest/gtest.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "contract/stream_partitions.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/stream_line.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
/// How long `count` waits take in vain, each of which ends by PARTITA_TIMEOUT.
std::chrono::seconds limits(int count) {
  return std::chrono::seconds(count * environment_number("PARTITA_TIMEOUT", 20));
}

/// What comes when a limit is over, which is short.
using StreamPartitionTimeout = StreamPartitions;
/// What comes before one, however loaded the machine is: in the entry series, where it is long.
class StreamPartitionSeries : public StreamPartitions {
 protected:
  /// An epoch whose kernel takes a small part of the limit.
  static void send_slowly(Line& sends, Pair& pair, int epoch) {
    sends.start(pair.out.request);
    sends.launch([&pair, epoch] {
      std::this_thread::sleep_for(std::chrono::milliseconds(limits(1)) / 12);
      pair.out.send(seed_of(rank(), epoch));
    });
    sends.wait(pair.out.request);
  }
};
INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitionTimeout, testing::Values(PartitionShape{4, 64}));
INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitionSeries, testing::Values(PartitionShape{4, 64}));

/// Nobody marks: behind the limit the stream goes on, and the epochs behind that one do not wait again.
TEST_P(StreamPartitionTimeout, lets_the_stream_go) {
  constexpr int epochs = 8;
  harness_barrier();
  Pair pair(1, GetParam());
  Line line(0);
  const auto begin = Clock::now();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    line.start(pair.in.request);
    line.wait(pair.in.request);
  }
  line.expect_to_go_on();
  const auto end = Clock::now();
  EXPECT_GE(end - begin, limits(1)) << "the first epoch was not waited for";
  EXPECT_LT(end - begin, limits(epochs - 1)) << "the stream was held again behind the failure";
  EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  // The library's own kernels have a device request. No kernel of the program's could do anything with it.
  EXPECT_ERROR(Partita_Prequest_create(&pair.in.device, pair.in.request), MPI_ERR_REQUEST, "Prequest_create",
               "an earlier epoch of the request ended with an error");
  harness_barrier();  // a free of what the other still waits for would end its wait first
  pair.free();
}

/// The receiver never starts: the kernels of the epochs behind hear at once that it is in vain.
TEST_P(StreamPartitionTimeout, of_a_prepare_are_waited_for_once) {
  constexpr int epochs = 8;
  harness_barrier();
  Pair pair(1, GetParam());
  Line line(0);
  const auto begin = Clock::now();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    line.start(pair.out.request);
    line.launch([&pair, epoch] {
      EXPECT_EQ(epoch == 0 ? PARTITA_DEVICE_ERR_TIMEOUT : PARTITA_DEVICE_ERR_ABORTED,
                MPIX_Pbuf_prepare(pair.out.device));
    });
    line.wait(pair.out.request);
  }
  line.expect_to_go_on();
  EXPECT_LT(Clock::now() - begin, limits(epochs - 1)) << "the limit was waited for again behind the failure";
  EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  harness_barrier();
  pair.free();
}

/// The receiver starts when its sender has given up waiting. The sender's next start was not taken, so that what its
/// kernels send behind that belongs to no epoch.
TEST_P(StreamPartitionTimeout, let_nothing_travel_as_the_epoch_that_has_failed) {
  harness_barrier();
  Pair pair(1, GetParam());
  Line sends(0), receives(1);
  sends.start(pair.out.request);
  sends.launch([&pair] { EXPECT_EQ(PARTITA_DEVICE_ERR_TIMEOUT, MPIX_Pbuf_prepare(pair.out.device)); });
  sends.wait(pair.out.request);
  sends.worker().drain();
  harness_barrier();
  pair.in.fill(seed_of(left(), 7));
  receives.start(pair.in.request);
  receives.worker().drain();
  harness_barrier();
  sends.start(pair.out.request);
  sends.launch([&pair] {
    EXPECT_EQ(PARTITA_DEVICE_ERR_ABORTED, MPIX_Pbuf_prepare(pair.out.device));
    pair.out.fill(seed_of(rank(), 2));
    for (int p = 0; p < GetParam().partitions; ++p) {
      EXPECT_EQ(PARTITA_DEVICE_ERR_ABORTED, MPIX_Pready(p, pair.out.device));
    }
  });
  sends.wait(pair.out.request);
  receives.wait(pair.in.request);
  EXPECT_ERROR(Partita_Queue_wait(sends.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_OTHER, "Queue_wait");
  receives.worker().drain();
  pair.in.expect(seed_of(left(), 7));
  harness_barrier();
  pair.free();
}

/// No queue sees what a graph does: the request tells.
TEST_P(StreamPartitionTimeout, of_a_graph_comes_out_of_a_wait) {
  harness_barrier();
  Pair pair(1, GetParam());
  pair.in.create();
  Line line(0);
  line.worker().begin_capture();
  line.start(pair.in.request);
  line.wait(pair.in.request);
  line.launch(line.worker().end_capture());
  line.worker().drain();
  EXPECT_ERROR(Partita_Wait(&pair.in.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "PARTITA_TIMEOUT");
  EXPECT_OK(Partita_Wait(&pair.in.request, MPI_STATUS_IGNORE));
  harness_barrier();
  pair.free();
}

/// Each wait takes a small part of the limit, and all of them together more than Queue_wait gives a stream that stands.
TEST_P(StreamPartitionSeries, of_each_wait_are_no_limit_of_all) {
  constexpr int epochs = 27;
  harness_barrier();
  Pair pair(1, GetParam());
  Line sends(0), receives(1);
  const auto begin = Clock::now();
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    receives.start(pair.in.request);
    receives.wait(pair.in.request);
    receives.launch([&pair, epoch] { pair.in.expect(seed_of(left(), epoch)); });
    send_slowly(sends, pair, epoch);
  }
  receives.finish();
  sends.finish();
  EXPECT_GT(Clock::now() - begin, limits(2));
  harness_barrier();
  pair.free();
}

/// What the host drives is enqueued behind the series: the stream does not come to that for more than one limit.
TEST_P(StreamPartitionSeries, is_seen_to_pass_in_front_of_what_the_host_drives) {
  constexpr int epochs = 18;
  harness_barrier();
  Pair pair(1, GetParam()), by_host(2, GetParam(), "host", "host");
  Line sends(0), receives(1);
  const auto begin = Clock::now();
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    receives.start(pair.in.request);
    receives.wait(pair.in.request);
    send_slowly(sends, pair, epoch);
  }
  receives.start(by_host.in.request);
  receives.wait(by_host.in.request);
  sends.start(by_host.out.request);
  by_host.out.fill(seed_of(rank(), 1));
  ASSERT_OK(Partita_Pready_range(0, GetParam().partitions - 1, by_host.out.request));
  sends.wait(by_host.out.request);
  receives.finish();
  EXPECT_GT(Clock::now() - begin, limits(1));
  pair.in.expect(seed_of(left(), epochs));
  by_host.in.expect(seed_of(left(), 1));
  sends.finish();
  harness_barrier();
  pair.free();
  by_host.free();
}

/// Nobody marks some of many requests, and one wait comes behind the other: no two of these are in one launch.
TEST_P(StreamPartitionSeries, is_seen_to_pass_wherever_it_is) {
  constexpr int requests = 66, late = 4;
  const auto is_late = [](int i) { return i % 16 == 1 && i / 16 < late; };
  harness_barrier();
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<Partita_Request> received;
  for (int i = 0; i < requests; ++i) {
    pairs.push_back(std::make_unique<Pair>(i, GetParam()));
    received.push_back(pairs.back()->in.request);
  }
  harness_barrier();
  Line sends(0), receives(1);
  const auto begin = Clock::now();
  ASSERT_OK(Partita_Enqueue_startall(receives.queue(), requests, received.data()));
  for (int i = 0; i < requests; ++i) {
    if (is_late(i)) continue;
    Pair& pair = *pairs[static_cast<std::size_t>(i)];
    sends.start(pair.out.request);
    sends.launch([&pair] { pair.out.send(seed_of(rank(), 1)); });
    sends.wait(pair.out.request);
  }
  ASSERT_OK(Partita_Enqueue_waitall(receives.queue(), requests, received.data()));
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_OTHER, "Queue_wait", "a kernel waited longer", "tag 1,");
  EXPECT_GT(Clock::now() - begin, limits(late));
  EXPECT_OK(Partita_Queue_wait(receives.queue()));
  sends.finish();
  harness_barrier();
  for (const auto& each : pairs) each->free();
}

}  // namespace
}  // namespace partita::test
