// GPU memory that takes the place of freed memory, which a message was moved to or from by streams: the older request's
// mapping goes when no stream can use it. On streams of the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

/// Rank 0 sends to rank 1.
class StreamPlace : public testing::Test {
 protected:
  static constexpr int count = 3000;

  StreamPlace() {
    FakeGpu::instance().tell_places_apart(true);
    EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, stream_));
  }
  ~StreamPlace() override {
    worker().drain();
    EXPECT_OK(Partita_Queue_free(&queue_));
    FakeGpu::instance().tell_places_apart(false);
    harness_barrier();
  }

  static bool sends() { return rank() == 0; }
  int* data() const { return reinterpret_cast<int*>(buffer_.data()); }
  FakeWorker& worker() const { return *static_cast<FakeWorker*>(*static_cast<void**>(stream_)); }

  using Init = int (*)(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Partita_Request*);
  /// A message that streams move.
  static Partita_Request matched(int tag, void* data, Init init = Partita_Send_init) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(sends() ? init(data, count, MPI_INT, 1, tag, MPI_COMM_WORLD, &made)
                      : Partita_Recv_init(data, count, MPI_INT, 0, tag, MPI_COMM_WORLD, &made));
    EXPECT_OK(Partita_Matchall(1, &made));
    return made;
  }
  Partita_Request matched(int tag, Init init = Partita_Send_init) { return matched(tag, data(), init); }
  /// One epoch of it.
  std::vector<FakeWorker::Operation> captured(Partita_Request& request) {
    worker().begin_capture();
    EXPECT_OK(Partita_Enqueue_start(queue_, &request));
    EXPECT_OK(Partita_Enqueue_wait(queue_, &request));
    return worker().end_capture();
  }
  void launch(const std::vector<FakeWorker::Operation>& graph) {
    for (const FakeWorker::Operation& node : graph) worker().ask(node);
    worker().drain();
  }
  /// One that hosts move.
  Partita_Request started(int tag) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(sends() ? Partita_Psend_init(data(), 1, count, MPI_INT, 1, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &made)
                      : Partita_Precv_init(data(), 1, count, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &made));
    EXPECT_OK(Partita_Start(&made));
    return made;
  }
  void complete(Partita_Request request, int value) {
    if (sends()) {
      std::fill_n(data(), count, value);
      EXPECT_OK(Partita_Pready(0, request));
    }
    EXPECT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(data()[count - 1], value);
    EXPECT_OK(Partita_Request_free(&request));
  }
  void exchange(Partita_Request request, int value) {
    if (sends()) std::fill_n(data(), count, value);
    ASSERT_OK(Partita_Enqueue_start(queue_, &request));
    ASSERT_OK(Partita_Enqueue_wait(queue_, &request));
    ASSERT_OK(Partita_Queue_wait(queue_));
    EXPECT_EQ(data()[count - 1], value);
  }
  /// The program frees its buffer, and gets another one that lies there.
  void replace_buffer() {
    FakeGpu::instance().replace(buffer_.data());
    std::fill_n(data(), count, -1);
  }
  void wait_for_obstacle(Partita_Request request, std::uint64_t held_before) {
    while (FakeGpu::instance().held_in_the_way() == held_before) {
      int flag = 0;
      ASSERT_OK(Partita_Test(&request, &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 0);
    }
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  FakeGpuBuffer buffer_{mapped, count * sizeof(int)};
  void* stream_ = queue_stream(0);
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

TEST_F(StreamPlace, is_received_into_while_the_sender_keeps_its_message) {
  Partita_Request old = matched(1);
  exchange(old, 5);
  if (!sends()) {
    EXPECT_OK(Partita_Request_free(&old));
    replace_buffer();
  }
  complete(started(2), 6);
  if (sends()) {
    EXPECT_OK(Partita_Request_free(&old));
  }
}

TEST_F(StreamPlace, is_moved_from_by_streams_once_both_sides_have_freed_the_older_message) {
  Partita_Request old = matched(1);
  exchange(old, 5);
  EXPECT_OK(Partita_Request_free(&old));
  harness_barrier();
  if (sends()) replace_buffer();
  Partita_Request next = matched(2);
  exchange(next, 6);
  EXPECT_OK(Partita_Request_free(&next));
}

/// Its graphs may be launched at any time. Streams move the next one all the same, which may be captured, too.
TEST_F(StreamPlace, is_taken_by_the_next_message_beside_one_that_was_captured) {
  const FakeGpuBuffer elsewhere(mapped, count * sizeof(int));
  Partita_Request idle = matched(1, elsewhere.data());
  EXPECT_FALSE(captured(idle).empty());
  Partita_Request old = matched(2);
  exchange(old, 5);
  EXPECT_OK(Partita_Request_free(&old));
  harness_barrier();
  replace_buffer();
  harness_barrier();
  Partita_Request next = matched(3);
  if (sends()) std::fill_n(data(), count, 6);
  launch(captured(next));
  EXPECT_EQ(data()[count - 1], 6);
  EXPECT_OK(Partita_Request_free(&next));
  EXPECT_OK(Partita_Request_free(&idle));
}

/// It asks for no start of the receiver's: whatever launches it stores there.
TEST_F(StreamPlace, is_held_by_a_ready_send_until_that_is_freed) {
  Partita_Request old = matched(1, Partita_Rsend_init);
  if (!sends()) {
    ASSERT_OK(Partita_Enqueue_start(queue_, &old));
  }
  worker().drain();
  harness_barrier();
  if (sends()) {
    std::fill_n(data(), count, 5);
    ASSERT_OK(Partita_Enqueue_start(queue_, &old));
  }
  ASSERT_OK(Partita_Enqueue_wait(queue_, &old));
  ASSERT_OK(Partita_Queue_wait(queue_));
  EXPECT_EQ(data()[count - 1], 5);
  const std::uint64_t held_before = FakeGpu::instance().held_in_the_way();
  if (!sends()) {
    EXPECT_OK(Partita_Request_free(&old));
    replace_buffer();
  }
  Partita_Request next = started(2);
  if (sends()) {
    wait_for_obstacle(next, held_before);
    EXPECT_OK(Partita_Request_free(&old));
  }
  complete(next, 6);
}

class StreamPlaceTimeout : public StreamPlace {};

/// The receiver's graph has waited in vain. The sender's, which finds that start, pushes: into what is mapped still.
TEST_F(StreamPlaceTimeout, of_a_receive_leaves_what_a_graph_may_store_to) {
  Partita_Request old = matched(1);
  const std::vector<FakeWorker::Operation> graph = captured(old);
  const std::uint64_t held_before = FakeGpu::instance().held_in_the_way();
  if (!sends()) {
    launch(graph);
    EXPECT_ERROR(Partita_Request_free(&old), MPI_ERR_OTHER, "Request_free", "PARTITA_TIMEOUT");
    replace_buffer();
  }
  harness_barrier();
  Partita_Request next = started(2);
  if (sends()) {
    wait_for_obstacle(next, held_before);
    std::fill_n(data(), count, 5);
    launch(graph);
    EXPECT_ERROR(Partita_Start(&old), MPI_ERR_OTHER, "Start", "gave its request up");
    EXPECT_OK(Partita_Request_free(&old));
  }
  complete(next, 6);
}

/// Partita_Finalize, which follows, frees what is left of both.
TEST_F(StreamPlace, that_stays_taken_hangs_no_finalize) {
  Partita_Request old = matched(1, Partita_Rsend_init);
  harness_barrier();
  const std::uint64_t held_before = FakeGpu::instance().held_in_the_way();
  if (!sends()) {
    EXPECT_OK(Partita_Request_free(&old));
    replace_buffer();
  }
  Partita_Request next = PARTITA_REQUEST_NULL;
  EXPECT_OK(sends() ? Partita_Psend_init(data(), 1, count, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &next)
                    : Partita_Precv_init(data(), 1, count, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &next));
  while (sends() && FakeGpu::instance().held_in_the_way() == held_before) {
    int pending = 0;
    ASSERT_OK(Partita_Progress(&pending));
  }
}

}  // namespace
}  // namespace partita::test
