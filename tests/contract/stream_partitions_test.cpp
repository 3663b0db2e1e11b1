// Partitioned requests whose epochs kernels open, in queues of streams, which open and await them without the CPU: who
// may stand at the other side, what else is in the stream, graphs. On streams of the fake GPU; functions stand for
// kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "contract/stream_partitions.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/stream_line.hpp"

namespace partita::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitions, testing::Values(PartitionShape{4, 64}));
INSTANTIATE_TEST_SUITE_P(Flags, StreamPartitions, testing::Values(PartitionShape{6, 3001}));
INSTANTIATE_TEST_SUITE_P(One, StreamPartitions, testing::Values(PartitionShape{1, 20'000}));

/// The host takes no part between the first call and the last: it stands still. The receive needs no device request.
TEST_P(StreamPartitions, go_on_epoch_after_epoch_without_the_host) {
  constexpr int epochs = 12;
  Pair pair(1, GetParam());
  Line line(0);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    line.start(pair.out.request);  // waits for nobody
    line.start(pair.in.request);
    line.launch([&pair, epoch] { pair.out.send(seed_of(rank(), epoch)); });
    line.wait(pair.out.request);
    line.launch([&pair] { pair.out.overwrite(); });
    line.wait(pair.in.request);
    line.launch([&pair, epoch] { pair.in.expect(seed_of(left(), epoch)); });
  }
  line.worker().drain();
  pair.in.expect(seed_of(left(), epochs));
  line.finish();
  pair.free();
}

TEST_P(StreamPartitions, waits_in_another_order_on_the_two_sides_end) {
  Pair first(1, GetParam()), second(2, GetParam());
  Line sends(0), receives(1);
  for (int epoch = 1; epoch <= 8; ++epoch) {
    sends.start(second.out.request);
    sends.launch([&second, epoch] { second.out.send(seed_of(rank(), epoch)); });
    sends.start(first.out.request);
    sends.wait(second.out.request);
    sends.launch([&first, epoch] { first.out.send(seed_of(rank(), -epoch)); });
    sends.wait(first.out.request);
    receives.start(first.in.request);
    receives.start(second.in.request);
    receives.wait(first.in.request);
    receives.launch([&first, epoch] { first.in.expect(seed_of(left(), -epoch)); });
    receives.wait(second.in.request);
    receives.launch([&second, epoch] { second.in.expect(seed_of(left(), epoch)); });
  }
  sends.worker().drain();
  receives.worker().drain();
  sends.finish();
  receives.finish();
  first.free();
  second.free();
}

/// What a stream needs of the GPU's memory is there from the match on: by then waits may stand in streams, which a call
/// that takes memory can stand behind.
TEST_P(StreamPartitions, take_no_memory_of_the_gpu_behind_the_match) {
  Pair pair(1, GetParam());
  Line line(0);
  const std::size_t allocations = FakeGpu::instance().allocations();
  line.start(pair.in.request);
  line.start(pair.out.request);
  line.launch([&pair] { pair.out.send(seed_of(rank(), 1)); });
  line.wait(pair.in.request);
  line.wait(pair.out.request);
  EXPECT_EQ(allocations, FakeGpu::instance().allocations());
  line.finish();
  pair.in.expect(seed_of(left(), 1));
  pair.free();
}

/// A launch starts all of them, or waits for all, up to 16.
TEST_P(StreamPartitions, of_an_array_start_and_wait_together) {
  constexpr int pairs = 9;
  std::vector<std::unique_ptr<Pair>> all;
  std::vector<Partita_Request> requests;
  for (int i = 0; i < pairs; ++i) {
    all.push_back(std::make_unique<Pair>(i, GetParam()));
    all.back()->in.create();  // ahead, so that no other launch is counted
    requests.insert(requests.end(), {all.back()->in.request, all.back()->out.request});
  }
  Line line(0);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    const std::uint64_t before = FakeGpu::instance().launches();
    ASSERT_OK(Partita_Enqueue_startall(line.queue(), 2 * pairs, requests.data()));
    line.launch([&all, epoch] {
      for (int i = 0; i < pairs; ++i) all[static_cast<std::size_t>(i)]->out.send(seed_of(rank(), epoch) + i);
    });
    ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 2 * pairs, requests.data()));
    EXPECT_EQ(before + 4, FakeGpu::instance().launches());
    line.launch([&all, epoch] {
      for (int i = 0; i < pairs; ++i) all[static_cast<std::size_t>(i)]->in.expect(seed_of(left(), epoch) + i);
    });
  }
  line.worker().drain();
  line.finish();
  for (const auto& each : all) each->free();
}

/// The epochs of both are one order.
TEST_P(StreamPartitions, take_turns_with_kernels_that_open_epochs) {
  Pair pair(1, GetParam());
  Line line(0);
  int epoch = 0;
  for (int turn = 0; turn < 3; ++turn) {
    line.start(pair.in.request);
    line.start(pair.out.request);
    line.launch([&pair, now = ++epoch] { pair.out.send(seed_of(rank(), now)); });
    line.wait(pair.in.request);
    line.wait(pair.out.request);
    line.finish();
    pair.in.expect(seed_of(left(), epoch));
    pair.in.create();
    line.launch([&pair, now = ++epoch] {
      EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pstart(pair.in.device));
      EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pstart(pair.out.device));
      pair.out.send(seed_of(rank(), now));
      EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pwait(pair.out.device));
      EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pwait(pair.in.device));
      pair.in.expect(seed_of(left(), now));
    });
    line.worker().drain();
    EXPECT_OK(Partita_Prequest_free(&pair.in.device));
  }
  pair.free();
}

/// Between the start and the wait.
TEST_P(StreamPartitions, kernels_ask_for_what_has_arrived) {
  Pair pair(1, GetParam());
  pair.in.create();
  Line line(0);
  for (int epoch = 1; epoch <= 5; ++epoch) {
    line.start(pair.in.request);
    line.start(pair.out.request);
    line.launch([&, epoch] {
      int arrived = -1;
      pair.out.send(seed_of(rank(), epoch));
      for (int p = 0; p < GetParam().partitions; ++p) {
        for (arrived = 0; arrived == 0;) {
          ASSERT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Parrived(pair.in.device, p, &arrived));
        }
      }
      pair.in.expect(seed_of(left(), epoch));
    });
    line.wait(pair.in.request);
    line.wait(pair.out.request);
  }
  line.worker().drain();
  line.finish();
  pair.free();
}

/// What counts epochs lies in the GPU's memory.
TEST_P(StreamPartitions, a_graph_runs_an_epoch_each_time_it_is_launched) {
  constexpr int launches = 20;
  Pair pair(1, GetParam());
  Line line(0);
  int sent = 0, received = 0;
  line.worker().begin_capture();
  line.start(pair.in.request);
  line.start(pair.out.request);
  line.launch([&] { pair.out.send(seed_of(rank(), ++sent)); });
  line.wait(pair.out.request);
  line.wait(pair.in.request);
  line.launch([&] { pair.in.expect(seed_of(left(), ++received)); });
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  for (int i = 0; i < launches; ++i) line.launch(graph);
  line.worker().drain();
  EXPECT_EQ(launches, received);
  // Others go on behind it.
  line.start(pair.in.request);
  line.start(pair.out.request);
  line.launch([&] { pair.out.send(seed_of(rank(), 99)); });
  line.wait(pair.in.request);
  line.wait(pair.out.request);
  line.finish();
  pair.in.expect(seed_of(left(), 99));
  pair.free();
}

/// The host of the other side starts, and completes, as if its peer were a host.
TEST_P(StreamPartitions, the_other_side_may_be_a_hosts) {
  for (const bool stream_sends : {true, false}) {
    Pair pair(1, GetParam(), stream_sends ? "device" : "host", stream_sends ? "host" : "device");
    OneSide& by_stream = stream_sends ? pair.out : pair.in;
    OneSide& by_host = stream_sends ? pair.in : pair.out;
    Line line(0);
    for (int epoch = 1; epoch <= 6; ++epoch) {
      line.start(by_stream.request);
      if (stream_sends) line.launch([&pair, epoch] { pair.out.send(seed_of(rank(), epoch)); });
      line.wait(by_stream.request);
      if (!stream_sends) line.launch([&pair, epoch] { pair.in.expect(seed_of(left(), epoch)); });
      ASSERT_OK(Partita_Start(&by_host.request));
      if (!stream_sends) {
        write_pattern(pair.out.data(), static_cast<std::uint64_t>(seed_of(rank(), epoch)), 0, GetParam().total_bytes());
        ASSERT_OK(Partita_Pready_range(0, GetParam().partitions - 1, by_host.request));
      }
      ASSERT_OK(Partita_Wait(&by_host.request, MPI_STATUS_IGNORE));
      if (stream_sends) pair.in.expect(seed_of(left(), epoch));
    }
    line.finish();
    line.worker().drain();
    pair.free();
  }
}

/// The other side goes through the progress engine, in the same queue.
TEST_P(StreamPartitions, the_other_side_may_be_the_engines) {
  Pair pair(1, GetParam(), "device", "host");
  Line line(0);
  std::array both{pair.in.request, pair.out.request};
  for (int epoch = 1; epoch <= 6; ++epoch) {
    ASSERT_OK(Partita_Enqueue_startall(line.queue(), 2, both.data()));
    line.launch([&pair, epoch] { pair.out.send(seed_of(rank(), epoch)); });
    ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 2, both.data()));
    line.launch([&pair, epoch] { pair.in.expect(seed_of(left(), epoch)); });
  }
  line.finish();
  line.worker().drain();
  pair.free();
}

TEST_P(StreamPartitions, to_nobody_are_over_at_once) {
  Pair pair(1, GetParam());
  OneSide nobody(true, MPI_PROC_NULL, 2, GetParam());
  ASSERT_OK(Partita_Match(&nobody.request));
  nobody.create();
  Line line(0);
  line.worker().begin_capture();
  line.start(nobody.request);
  line.wait(nobody.request);
  EXPECT_TRUE(line.worker().end_capture().empty());
  std::array all{nobody.request, pair.in.request, pair.out.request};
  ASSERT_OK(Partita_Enqueue_startall(line.queue(), 3, all.data()));
  line.launch([&] {
    nobody.send(1);
    pair.out.send(seed_of(rank(), 1));
  });
  ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 3, all.data()));
  line.finish();
  pair.in.expect(seed_of(left(), 1));
  nobody.free();
  pair.free();
}

/// Queue_free waits until the stream has passed the waits.
TEST_P(StreamPartitions, are_the_hosts_again_behind_queue_free) {
  Pair pair(1, GetParam());
  std::atomic<bool> go{false};
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_CUDA, queue_stream(0)));
  Line line(0);
  std::array both{pair.in.request, pair.out.request};
  ASSERT_OK(Partita_Enqueue_startall(queue, 2, both.data()));
  line.launch([&] {
    while (!go) std::this_thread::yield();
    pair.out.send(seed_of(rank(), 1));
  });
  ASSERT_OK(Partita_Enqueue_waitall(queue, 2, both.data()));
  EXPECT_ERROR(Partita_Request_free(&pair.in.request), MPI_ERR_REQUEST, "Request_free", "queue");
  go = true;
  ASSERT_OK(Partita_Queue_free(&queue));
  pair.in.expect(seed_of(left(), 1));
  pair.free();
}

}  // namespace
}  // namespace partita::test
