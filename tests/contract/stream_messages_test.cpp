// Messages between GPU memories, which streams move by themselves: who moves them when, and how they end. On streams of
// the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/persistent_ring.hpp"
#include "support/stream_line.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

using Init = int (*)(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Partita_Request*);

/// Numbers in GPU memory.
class GpuNumbers {
 public:
  GpuNumbers(std::size_t count, int value) : memory_(mapped, count * sizeof(int)), count_(count) { fill(value); }

  int* data() { return reinterpret_cast<int*>(memory_.data()); }
  MPI_Count count() const { return static_cast<MPI_Count>(count_); }
  void fill(int value) { std::fill_n(data(), count_, value); }
  bool are(int value) {
    return std::all_of(data(), data() + count_, [value](int each) { return each == value; });
  }

 private:
  FakeGpuBuffer memory_;
  std::size_t count_;
};

/// Sizes that one block moves, that several do, and that a launch of its own does behind a wait.
class StreamMessages : public PersistentRing, public testing::WithParamInterface<std::size_t> {
 protected:
  Partita_Request send(GpuNumbers& from, int tag, Init init = Partita_Send_init) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(init(from.data(), from.count(), MPI_INT, right(), tag, MPI_COMM_WORLD, &made));
    return made;
  }
  Partita_Request receive(GpuNumbers& into, int tag) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Recv_init(into.data(), into.count(), MPI_INT, left(), tag, MPI_COMM_WORLD, &made));
    return made;
  }
  template <class... Requests>
  static void match(Requests&... requests) {
    std::array all{requests...};
    ASSERT_OK(Partita_Matchall(static_cast<int>(all.size()), all.data()));
    for (Partita_Request each : all) {
      EXPECT_EQ("stream", told(each, "partita_moved_by"));
      EXPECT_EQ("device", told(each, "partita_memory"));
    }
  }
  template <class... Requests>
  static void free_all(Requests&... requests) {
    for (Partita_Request* const each : {&requests...}) EXPECT_OK(Partita_Request_free(each));
  }
  static Partita_Completion completion_of(Partita_Request request) {
    Partita_Completion made{};
    EXPECT_OK(Partita_Queue_completion(request, &made));
    return made;
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
};
using StreamMessagesTimeout = StreamMessages;
INSTANTIATE_TEST_SUITE_P(Small, StreamMessages, testing::Values(100));
INSTANTIATE_TEST_SUITE_P(Large, StreamMessages, testing::Values(50'000));
INSTANTIATE_TEST_SUITE_P(Larger, StreamMessages, testing::Values(100'000));
INSTANTIATE_TEST_SUITE_P(Small, StreamMessagesTimeout, testing::Values(100));

/// The receiver's stream comes to its wait while the sender's stands behind its start: the receiver pulls.
TEST_P(StreamMessages, a_receive_does_not_wait_for_the_senders_wait) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 1), to = send(out, 1);
  match(from, to);
  receive_before_the_senders_wait(to, from, [&] { EXPECT_TRUE(in.are(left())); });
  free_all(from, to);
}

/// The sender's stream comes to its wait while the receiver's stands behind its start: the sender pushes.
TEST_P(StreamMessages, a_send_does_not_wait_for_the_receivers_wait) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 2), to = send(out, 2);
  match(from, to);
  Line sends(0), receives(1);
  sends.start(to);
  sends.worker().drain();
  harness_barrier();
  receives.start(from);
  sends.wait(to);
  sends.finish();
  out.fill(-2);  // the send is over
  harness_barrier();
  receives.wait(from);
  receives.finish();
  EXPECT_TRUE(in.are(left()));
  free_all(from, to);
}

TEST_P(StreamMessages, waits_in_another_order_on_the_two_sides_end) {
  GpuNumbers in_first(GetParam(), -1), in_second(GetParam(), -1), out_first(GetParam(), rank()),
      out_second(GetParam(), rank() + 100);
  Partita_Request from_first = receive(in_first, 3), to_first = send(out_first, 3);
  Partita_Request from_second = receive(in_second, 4), to_second = send(out_second, 4);
  match(from_first, to_first, from_second, to_second);
  Line sends(0), receives(1);
  for (int epoch = 0; epoch < 20; ++epoch) {
    sends.start(to_first);
    sends.wait(to_first);
    sends.start(to_second);
    receives.start(from_first);
    receives.start(from_second);
    receives.wait(from_second);
    receives.wait(from_first);
    sends.wait(to_second);
  }
  sends.finish();
  receives.finish();
  EXPECT_TRUE(in_first.are(left()));
  EXPECT_TRUE(in_second.are(left() + 100));
  free_all(from_first, to_first, from_second, to_second);
}

/// The host's cost of a start is that of a launch.
TEST_P(StreamMessages, of_an_array_start_in_one_launch) {
  constexpr int pairs = 13;
  std::vector<std::unique_ptr<GpuNumbers>> buffers;
  std::vector<Partita_Request> all;
  for (int i = 0; i < pairs; ++i) {
    for (const int value : {-1, rank() + i}) buffers.push_back(std::make_unique<GpuNumbers>(GetParam(), value));
    all.push_back(receive(*buffers[buffers.size() - 2], 30 + i));
    all.push_back(send(*buffers.back(), 30 + i));
  }
  ASSERT_OK(Partita_Matchall(2 * pairs, all.data()));
  Line line(0);
  const auto launches_of = [&](auto call) {
    const std::uint64_t before = FakeGpu::instance().launches();
    EXPECT_OK(call(line.queue(), 2 * pairs, all.data()));
    return FakeGpu::instance().launches() - before;
  };
  EXPECT_EQ(1U, launches_of(Partita_Enqueue_startall));
  const std::uint64_t of_waits = launches_of(Partita_Enqueue_waitall);
  if (GetParam() * sizeof(int) <= 256 * 1024) {
    EXPECT_EQ(1U, of_waits);
  }
  line.finish();
  for (int i = 0; i < pairs; ++i) EXPECT_TRUE(buffers[static_cast<std::size_t>(2 * i)]->are(left() + i));
  harness_barrier();  // requests before buffers, on both sides
  for (Partita_Request& each : all) EXPECT_OK(Partita_Request_free(&each));
}

/// Both sides offer, and both messages are claimed while the other one is waited for.
TEST_P(StreamMessages, waits_of_an_array_do_not_wait_for_each_other) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 12), to = send(out, 12);
  match(from, to);
  Line line(0);
  std::array starts{to, from};
  for (int epoch = 0; epoch < 40; ++epoch) {
    std::array waits = epoch % 2 == 0 ? std::array{to, from} : std::array{from, to};
    for (Partita_Request& each : starts) line.start(each);
    ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 2, waits.data()));
  }
  line.finish();
  EXPECT_TRUE(in.are(left()));
  free_all(from, to);
}

/// Nobody has looked whether the match is made.
TEST_P(StreamMessages, an_imatch_is_enough) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 13), to = send(out, 13), matching = PARTITA_REQUEST_NULL;
  std::array all{from, to};
  ASSERT_OK(Partita_Imatchall(2, all.data(), &matching));
  ASSERT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  Line line(0);
  ASSERT_OK(Partita_Enqueue_startall(line.queue(), 2, all.data()));
  ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 2, all.data()));
  line.finish();
  EXPECT_EQ("stream", told(from, "partita_moved_by"));
  EXPECT_TRUE(in.are(left()));
  free_all(from, to);
}

/// Also where the first start goes into a graph.
TEST_P(StreamMessages, an_imatch_is_enough_for_a_graph) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 20), to = send(out, 20), matching = PARTITA_REQUEST_NULL;
  std::array all{from, to};
  ASSERT_OK(Partita_Imatchall(2, all.data(), &matching));
  for (Partita_Request each : all) {
    while (told(each, "partita_matched") != "true") std::this_thread::yield();  // which is no look at it
  }
  Line line(0);
  line.worker().begin_capture();
  EXPECT_OK(Partita_Enqueue_startall(line.queue(), 2, all.data()));
  EXPECT_OK(Partita_Enqueue_waitall(line.queue(), 2, all.data()));
  line.launch(line.worker().end_capture());
  line.worker().drain();
  EXPECT_TRUE(in.are(left()));
  ASSERT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  free_all(from, to);
}

/// Whoever tells the sender of a ready send that the receive has started waits for the queue before.
TEST_P(StreamMessages, a_queue_is_waited_for_where_there_is_a_start_alone) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 23), to = send(out, 23, Partita_Rsend_init);
  match(from, to);
  Line sends(0), receives(1);
  std::atomic<bool> go{false};
  receives.launch([&go] {
    while (!go) std::this_thread::yield();
  });
  receives.start(from);
  std::thread lets_go([&go] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    go = true;
  });
  receives.finish();
  EXPECT_TRUE(go) << "the stream has not come to the start";
  lets_go.join();
  harness_barrier();
  sends.start(to);
  sends.wait(to);
  receives.wait(from);
  sends.finish();
  receives.finish();
  EXPECT_TRUE(in.are(left()));
  free_all(from, to);
}

/// It does not look whether the receive is started, and its wait has nothing to wait for.
TEST_P(StreamMessages, a_ready_send_is_over_when_it_is_started) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 5), to = send(out, 5, Partita_Rsend_init);
  match(from, to);
  Line sends(0), receives(1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    receives.start(from);
    receives.worker().drain();
    harness_barrier();
    sends.launch([&, epoch] { out.fill(rank() + epoch); });
    sends.start(to);
    sends.wait(to);
    sends.launch([&] { out.fill(-2); });
    receives.wait(from);
    receives.launch([&, epoch] { EXPECT_TRUE(in.are(left() + epoch)); });
  }
  sends.finish();
  receives.finish();
  receives.worker().drain();
  free_all(from, to);
}

/// Epochs live in the GPU's memory, and so the graph needs no new values.
TEST_P(StreamMessages, a_graph_runs_an_epoch_each_time_it_is_launched) {
  const long launches = environment_number("PARTITEST_LAUNCHES", 100);
  GpuNumbers in(GetParam(), -1), out(GetParam(), -1);
  Partita_Request from = receive(in, 6), to = send(out, 6);
  match(from, to);
  Line line(0);
  int wrong = 0;
  int sent = 0;
  int received = 0;
  line.worker().begin_capture();
  line.launch([&] { out.fill(++sent * 10 + rank()); });
  ASSERT_OK(Partita_Enqueue_start(line.queue(), &from));
  ASSERT_OK(Partita_Enqueue_start(line.queue(), &to));
  ASSERT_OK(Partita_Enqueue_wait(line.queue(), &to));
  ASSERT_OK(Partita_Enqueue_wait(line.queue(), &from));
  line.launch([&] { wrong += in.are(++received * 10 + left()) ? 0 : 1; });
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  EXPECT_EQ(-1, in.data()[0]);
  for (long i = 0; i < launches; ++i) line.launch(graph);
  line.worker().drain();
  EXPECT_EQ(launches, received);
  EXPECT_EQ(0, wrong);
  // Between graphs others go on.
  out.fill(7);
  ASSERT_OK(Partita_Start(&from));
  line.start(to);
  line.wait(to);
  ASSERT_OK(Partita_Wait(&from, MPI_STATUS_IGNORE));
  line.finish();
  EXPECT_TRUE(in.are(7));
  free_all(from, to);
}

/// What the paper's kernels poll: no wait is there yet.
TEST_P(StreamMessages, a_kernel_polls_for_the_end_of_a_ready_send) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 17), to = send(out, 17, Partita_Rsend_init);
  match(from, to);
  const Partita_Completion received = completion_of(from), sent = completion_of(to);
  EXPECT_EQ(*received.word, *received.epoch) << "nothing was started yet";
  Line sends(0), receives(1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    receives.start(from);
    receives.worker().drain();
    int before = -1;
    EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Completed(received, &before));
    EXPECT_EQ(0, before);
    harness_barrier();
    std::atomic<int> wrong{0};
    receives.launch([&, epoch] {
      int arrived = 0;
      while (arrived == 0) wrong += MPIX_Completed(received, &arrived) == PARTITA_DEVICE_SUCCESS ? 0 : 1;
      wrong += in.are(left() + epoch) ? 0 : 1;
    });
    out.fill(rank() + epoch);
    sends.start(to);
    sends.launch([&] {
      int over = 0;
      wrong += MPIX_Completed(sent, &over) == PARTITA_DEVICE_SUCCESS && over == 1 ? 0 : 1;
    });
    sends.wait(to);
    receives.wait(from);
    sends.finish();
    receives.finish();
    EXPECT_EQ(0, wrong);
  }
  free_all(from, to);
}

/// The sender's stream stands behind its start, so the kernel moves it.
TEST_P(StreamMessages, a_kernel_pulls_what_a_send_has_offered) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 18), to = send(out, 18);
  match(from, to);
  const Partita_Completion received = completion_of(from);
  Line sends(0), receives(1);
  sends.start(to);
  sends.worker().drain();
  harness_barrier();  // every send is started, and no receive
  receives.start(from);
  std::atomic<int> only_looked{-1}, code{-1};
  std::atomic<bool> right{false};
  receives.launch([&] {
    int flag = -1;
    MPIX_Completed(received, &flag);
    only_looked = flag;
    do {
      code = MPIX_Completed_block(received, &flag);
    } while (code == PARTITA_DEVICE_SUCCESS && flag == 0);
    right = in.are(left());
  });
  receives.worker().drain();
  EXPECT_EQ(0, only_looked);
  EXPECT_EQ(PARTITA_DEVICE_SUCCESS, code);
  EXPECT_TRUE(right);
  harness_barrier();  // nobody's wait has come
  receives.wait(from);
  sends.wait(to);
  sends.finish();
  receives.finish();
  free_all(from, to);
}

/// The awaited value lies in the GPU's memory, too.
TEST_P(StreamMessages, kernels_of_a_graph_ask_for_the_end_of_their_launchs_epoch) {
  constexpr int launches = 50;
  GpuNumbers in(GetParam(), -1), out(GetParam(), -1);
  Partita_Request from = receive(in, 19), to = send(out, 19);
  match(from, to);
  std::array both{completion_of(from), completion_of(to)};
  Line line(0);
  int wrong = 0;
  int epoch = 0;
  line.worker().begin_capture();
  line.launch([&] { out.fill(++epoch * 10 + rank()); });
  line.start(from);
  line.start(to);
  line.launch([&] {
    for (int open = 2; open > 0;) {
      open = 2;
      for (const Partita_Completion& each : both) {
        int flag = 0;
        if (MPIX_Completed_block(each, &flag) != PARTITA_DEVICE_SUCCESS) {
          ++wrong;
          return;
        }
        open -= flag;
      }
    }
    wrong += in.are(epoch * 10 + left()) ? 0 : 1;
    out.fill(-2);  // the send is over
  });
  line.wait(to);
  line.wait(from);
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  for (int i = 0; i < launches; ++i) {
    for (const FakeWorker::Operation& node : graph) line.worker().ask(node);
  }
  line.worker().drain();
  EXPECT_EQ(launches, epoch);
  EXPECT_EQ(0, wrong);
  free_all(from, to);
}

/// A kernel that asks again and again is let go, too.
TEST_P(StreamMessages, a_kernel_hears_that_the_peer_has_freed_the_request) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 20), to = send(out, 20);
  match(from, to);
  if (rank() == 0) {
    const Partita_Completion received = completion_of(from);
    Line line(0);
    line.start(from);  // before the peer's free, behind which no start begins an epoch
    harness_barrier();
    std::atomic<int> code{-1}, found{-1};
    line.launch([&] {
      int flag = 0;
      while (flag == 0 && MPIX_Completed(received, &flag) == PARTITA_DEVICE_SUCCESS) std::this_thread::yield();
      code = MPIX_Completed_block(received, &flag);
      found = flag;
    });
    line.worker().drain();
    EXPECT_EQ(PARTITA_DEVICE_ERR_ABORTED, code);
    EXPECT_EQ(0, found);
    line.wait(from);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "Queue_wait", "freed");
    harness_barrier();
    free_all(from, to);
  } else {
    harness_barrier();
    free_all(from, to);
    harness_barrier();
  }
}

TEST_P(StreamMessages, of_a_message_to_nobody_everything_is_complete) {
  GpuNumbers out(GetParam(), rank());
  Partita_Request nobody = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Send_init(out.data(), out.count(), MPI_INT, MPI_PROC_NULL, 21, MPI_COMM_WORLD, &nobody));
  ASSERT_OK(Partita_Match(&nobody));
  const Partita_Completion sent = completion_of(nobody);
  EXPECT_EQ(nullptr, sent.word);
  int flag = 0;
  EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Completed(sent, &flag));
  EXPECT_EQ(1, flag);
  free_all(nobody);
}

/// Each sentence says what the kernel is to do instead.
TEST_P(StreamMessages, kernels_ask_only_for_what_streams_move) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  std::vector<int> host_in(GetParam()), host_out(GetParam());
  Partita_Completion made{};
  EXPECT_ERROR(Partita_Queue_completion(PARTITA_REQUEST_NULL, &made), MPI_ERR_REQUEST, "Queue_completion", "null");
  Partita_Request from = receive(in, 22), to = send(out, 22);
  EXPECT_ERROR(Partita_Queue_completion(from, &made), MPI_ERR_REQUEST, "Queue_completion", "not matched");
  match(from, to);
  EXPECT_ERROR(Partita_Queue_completion(from, nullptr), MPI_ERR_ARG, "Queue_completion", "completion");
  std::array in_host_memory{PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_OK(Partita_Recv_init(host_in.data(), in.count(), MPI_INT, left(), 23, MPI_COMM_WORLD, &in_host_memory[0]));
  ASSERT_OK(Partita_Send_init(host_out.data(), in.count(), MPI_INT, right(), 23, MPI_COMM_WORLD, &in_host_memory[1]));
  ASSERT_OK(Partita_Matchall(2, in_host_memory.data()));
  EXPECT_ERROR(Partita_Queue_completion(in_host_memory[0], &made), MPI_ERR_REQUEST, "Queue_completion", "hosts move it",
               "Enqueue_wait");
  Partita_Request partitioned = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Psend_init(out.data(), 1, out.count(), MPI_INT, MPI_PROC_NULL, 24, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &partitioned));
  EXPECT_ERROR(Partita_Queue_completion(partitioned, &made), MPI_ERR_REQUEST, "Queue_completion", "MPIX_Parrived");
  EXPECT_EQ(nullptr, made.message) << "an error has written something";
  free_all(from, to, in_host_memory[0], in_host_memory[1], partitioned);
}

TEST_P(StreamMessages, a_receive_may_have_more_room_than_the_message_fills) {
  GpuNumbers in(GetParam() + 3, -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 7), to = send(out, 7);
  match(from, to);
  Line line(0);
  line.start(from);
  line.start(to);
  line.wait(from);
  line.wait(to);
  line.finish();
  EXPECT_EQ(left(), in.data()[GetParam() - 1]);
  EXPECT_EQ(-1, in.data()[GetParam()]);
  free_all(from, to);
}

/// As at the border of a grid: what has no peer does not keep the others out of the graph.
TEST_P(StreamMessages, a_message_to_nobody_goes_into_a_graph) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 10), to = send(out, 10), nobody = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Send_init(out.data(), out.count(), MPI_INT, MPI_PROC_NULL, 10, MPI_COMM_WORLD, &nobody));
  std::array all{from, to, nobody};
  ASSERT_OK(Partita_Matchall(3, all.data()));
  Line line(0);
  line.worker().begin_capture();
  ASSERT_OK(Partita_Enqueue_startall(line.queue(), 3, all.data()));
  ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 3, all.data()));
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  for (const FakeWorker::Operation& node : graph) line.worker().ask(node);
  line.worker().drain();
  EXPECT_TRUE(in.are(left()));
  ASSERT_OK(Partita_Enqueue_startall(line.queue(), 3, all.data()));
  ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 3, all.data()));
  line.finish();
  free_all(from, to, nobody);
}

/// Its streams go on, and Queue_wait tells why.
TEST_P(StreamMessages, what_the_peer_has_freed_ends_the_wait) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 8), to = send(out, 8);
  match(from, to);
  harness_barrier();  // all have seen the match
  Line line(0);
  if (rank() == 0) {
    line.start(from);
    line.wait(from);
    line.expect_to_go_on();
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "Queue_wait", "freed");
    harness_barrier();
    free_all(from, to);
  } else {
    free_all(from, to);
    harness_barrier();
  }
}

/// What the peer has freed is not read or written by a start that comes later. The peers' later requests are matched
/// behind what they say of the free, so that rank 0 has heard it.
TEST_P(StreamMessages, what_the_peer_has_freed_is_not_started) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 14), to = send(out, 14);
  match(from, to);
  harness_barrier();  // all have seen the match
  if (rank() != 0) free_all(from, to);
  Partita_Request later_from = receive(in, 16), later_to = send(out, 16);
  match(later_from, later_to);
  harness_barrier();
  if (rank() == 0) {
    Line line(0);
    line.start(from);
    line.wait(from);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "Queue_wait", "freed");
    EXPECT_ERROR(Partita_Start(&to), MPI_ERR_REQUEST, "Start", "freed");
    free_all(from, to);
  }
  free_all(later_from, later_to);
}

/// The stream has not come to the message that the peer sent before it freed the request (a ready send, which waits for
/// nobody), when the next start is refused: that gives nothing up.
TEST_P(StreamMessages, a_start_behind_the_peers_free_takes_back_no_message) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 21), to = send(out, 21, Partita_Rsend_init);
  match(from, to);
  Line sends(0), receives(1);
  std::atomic<bool> go{false};
  receives.launch([&go] {
    while (!go) std::this_thread::yield();
  });
  receives.start(from);
  receives.wait(from);
  harness_barrier();  // all receives are enqueued
  sends.start(to);
  sends.wait(to);
  sends.finish();
  ASSERT_OK(Partita_Request_free(&to));
  Partita_Request later_from = receive(in, 22), later_to = send(out, 22);
  match(later_from, later_to);  // behind what the peer says of the free
  harness_barrier();            // all have seen it
  receives.start(from);
  receives.wait(from);
  go = true;
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_REQUEST, "Queue_wait", "the sender has freed");
  EXPECT_TRUE(in.are(left()));
  receives.start(from);
  receives.wait(from);
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_REQUEST, "Queue_wait", "the sender has freed");
  free_all(from, later_from, later_to);
}

/// Nobody sends: behind the limit the stream goes on.
TEST_P(StreamMessagesTimeout, lets_the_stream_go) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 9), to = send(out, 9);
  harness_barrier();  // the limit holds for the match, too
  match(from, to);
  Line line(0);
  line.start(from);
  line.wait(from);
  line.expect_to_go_on();
  EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  harness_barrier();  // a free of what the other still waits for would end its wait first
  free_all(from, to);
}

/// No queue sees what a graph does: the request tells.
TEST_P(StreamMessagesTimeout, of_a_graph_comes_out_of_a_wait) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 11), to = send(out, 11);
  harness_barrier();  // the limit holds for the match, too
  match(from, to);
  Line line(0);
  line.worker().begin_capture();
  line.start(from);
  line.wait(from);
  for (const FakeWorker::Operation& node : line.worker().end_capture()) line.worker().ask(node);
  line.worker().drain();
  int flag = -1;
  EXPECT_EQ(PARTITA_DEVICE_ERR_TIMEOUT, MPIX_Completed(completion_of(from), &flag));
  EXPECT_EQ(0, flag);
  EXPECT_ERROR(Partita_Wait(&from, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "PARTITA_TIMEOUT");
  EXPECT_OK(Partita_Wait(&from, MPI_STATUS_IGNORE));
  harness_barrier();
  free_all(from, to);
}

/// A send that has given up has taken its offer back: a receive that comes later reads nothing of its buffer.
TEST_P(StreamMessagesTimeout, takes_the_offer_back) {
  GpuNumbers in(GetParam(), -1), out(GetParam(), rank());
  Partita_Request from = receive(in, 15), to = send(out, 15);
  harness_barrier();  // the limit holds for the match, too
  match(from, to);
  Line sends(0), receives(1);
  // In a graph no queue sees the fault, so that the peer does not hear of it.
  sends.worker().begin_capture();
  sends.start(to);
  sends.wait(to);
  for (const FakeWorker::Operation& node : sends.worker().end_capture()) sends.worker().ask(node);
  sends.worker().drain();
  out.fill(-2);
  harness_barrier();
  receives.start(from);
  receives.wait(from);
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  EXPECT_TRUE(in.are(-1));
  harness_barrier();
  EXPECT_ERROR(Partita_Request_free(&to), MPI_ERR_OTHER, "Request_free", "PARTITA_TIMEOUT");
  EXPECT_OK(Partita_Request_free(&from));
}

}  // namespace
}  // namespace partita::test
