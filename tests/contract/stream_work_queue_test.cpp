// Queues of streams where the library's copies stand in the same work queue of the GPU, behind the stream: in a process
// that has few of them nothing is moved while the stream stands. Whatever goes wrong lets it go all the same, and all
// ends by the time limit. On streams of the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// PARTITA_TIMEOUT.
constexpr std::chrono::seconds limit(2);

/// Each rank sends to its right neighbour and receives from its left one, from GPU memory to GPU memory, by copies that
/// the host asks for.
class Message {
 public:
  explicit Message(int tag) {
    EXPECT_OK(Partita_Precv_init(in_.data(), partitions, ints, MPI_INT, (rank() + ranks() - 1) % ranks(), tag,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    EXPECT_OK(Partita_Psend_init(out_.data(), partitions, ints, MPI_INT, (rank() + 1) % ranks(), tag, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &send));
    EXPECT_OK(Partita_Match(&receive));
    EXPECT_OK(Partita_Match(&send));
  }
  /// Behind what the peers still wait for, which a free would end first.
  ~Message() {
    harness_barrier();
    for (Partita_Request* const each : {&send, &receive}) {
      if (*each == PARTITA_REQUEST_NULL) continue;
      EXPECT_OK(Partita_Request_free(each));
    }
    harness_barrier();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void mark() const { EXPECT_OK(Partita_Pready_range(0, partitions - 1, send)); }

  Partita_Request send = PARTITA_REQUEST_NULL, receive = PARTITA_REQUEST_NULL;

 private:
  static constexpr int partitions = 2, ints = 5000;
  static constexpr std::size_t size_bytes = partitions * ints * sizeof(int);
  const FakeGpuBuffer in_{mapped, size_bytes}, out_{mapped, size_bytes};
};

/// Streams of the program's.
FakeWorker& stream(std::size_t which) {
  static std::array<FakeWorker, 2> streams;
  return streams.at(which);
}

Partita_Queue make_queue(std::size_t which) {
  void* native = &stream(which);
  Partita_Queue made = PARTITA_QUEUE_NULL;
  EXPECT_OK(Partita_Queue_init(&made, PARTITA_QUEUE_CUDA, &native));
  return made;
}

class StreamWorkQueue : public testing::Test {
 protected:
  StreamWorkQueue() { FakeGpu::instance().share_work_queue(&worker()); }
  ~StreamWorkQueue() override {
    FakeGpu::instance().share_work_queue(nullptr);
    worker().drain();
    EXPECT_OK(Partita_Queue_free(&queue_));
    harness_barrier();
  }

  static FakeWorker& worker() { return stream(0); }
  /// What comes behind waits for let_go(), so that all that is enqueued stands in front of any copy.
  void hold() {
    go_ = false;
    worker().ask([this] {
      while (!go_) std::this_thread::yield();
    });
  }
  void let_go() { go_ = true; }
  void start(Partita_Request& request) const { ASSERT_OK(Partita_Enqueue_start(queue_, &request)); }
  void wait(Partita_Request& request) const { ASSERT_OK(Partita_Enqueue_wait(queue_, &request)); }
  void start(Message& message) const {
    start(message.receive);
    start(message.send);
    message.mark();
  }
  /// Fails by the time limit, this rank's or the peer's, of which it hears.
  void expect_too_late() const {
    EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
    expect_to_go_on();
  }
  void expect_to_go_on() const {
    std::atomic<bool> over{false};
    worker().ask([&] { over = true; });
    worker().drain();
    EXPECT_TRUE(over);
    EXPECT_OK(Partita_Queue_wait(queue_));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  Partita_Queue queue_ = make_queue(0);
  std::atomic<bool> go_{false};
};

TEST_F(StreamWorkQueue, a_message_is_given_up_behind_its_wait) {
  Message message(1);
  hold();
  start(message);
  wait(message.send);
  wait(message.receive);
  let_go();
  expect_too_late();
}

TEST_F(StreamWorkQueue, a_queue_that_is_freed_gives_up_behind_its_wait) {
  Message message(2);
  Partita_Queue other = make_queue(0);
  hold();
  std::array requests = {message.receive, message.send};
  ASSERT_OK(Partita_Enqueue_startall(other, 2, requests.data()));
  message.mark();
  ASSERT_OK(Partita_Enqueue_waitall(other, 2, requests.data()));
  let_go();
  EXPECT_ERROR(Partita_Queue_free(&other), MPI_ERR_OTHER, "Queue_free", "PARTITA_TIMEOUT");
  EXPECT_EQ(other, PARTITA_QUEUE_NULL);
}

TEST_F(StreamWorkQueue, a_collective_is_given_up_behind_its_wait) {
  const FakeGpuBuffer in(mapped, 100 * sizeof(int)), out(mapped, 100 * sizeof(int));
  Partita_Request allreduce = PARTITA_REQUEST_NULL;
  ASSERT_OK(
      Partita_Allreduce_init(out.data(), in.data(), 100, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &allreduce));
  ASSERT_OK(Partita_Match(&allreduce));
  hold();
  start(allreduce);
  wait(allreduce);
  let_go();
  expect_too_late();
  harness_barrier();
  ASSERT_OK(Partita_Request_free(&allreduce));
  harness_barrier();
}

/// The stream goes from the first wait to the second, which is in front of the copies of both.
TEST_F(StreamWorkQueue, waits_behind_one_another_are_given_up) {
  Message one(4), other(5);
  hold();
  start(one);
  start(other);
  wait(one.send);
  wait(one.receive);
  wait(other.send);
  wait(other.receive);
  let_go();
  expect_too_late();
}

/// A start that the stream passes as it is let go has lost an epoch, of which the peers know.
TEST_F(StreamWorkQueue, a_request_whose_start_was_passed_starts_no_more) {
  Message moved(13), behind(14);
  hold();
  start(moved);
  wait(moved.send);
  wait(moved.receive);
  start(behind);
  wait(behind.send);
  wait(behind.receive);
  let_go();
  expect_too_late();
  EXPECT_ERROR(Partita_Start(&behind.send), MPI_ERR_OTHER, "Start", "was let go");
  EXPECT_ERROR(Partita_Start(&behind.receive), MPI_ERR_OTHER, "Start", "was let go");
}

/// One stream stands in front of what the other waits for.
TEST_F(StreamWorkQueue, another_queue_stands_in_front) {
  Message moved(6), never(7);
  Partita_Queue other = make_queue(1);
  hold();
  start(never.receive);  // nobody sends
  wait(never.receive);
  ASSERT_OK(Partita_Enqueue_start(other, &moved.send));
  ASSERT_OK(Partita_Enqueue_start(other, &moved.receive));
  moved.mark();
  ASSERT_OK(Partita_Enqueue_wait(other, &moved.send));
  ASSERT_OK(Partita_Enqueue_wait(other, &moved.receive));
  std::this_thread::sleep_for(limit);  // the other one's comes first
  let_go();
  EXPECT_ERROR(Partita_Queue_wait(other), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  expect_too_late();
  EXPECT_OK(Partita_Queue_free(&other));
}

/// A look finds the error, before the limit has passed.
TEST_F(StreamWorkQueue, an_error_ends_a_wait_in_front_of_the_copy) {
  Message message(8);
  ASSERT_OK(Partita_Start(&message.receive));
  const std::uint64_t copies = FakeGpu::instance().copies();
  hold();
  start(message.send);
  wait(message.send);
  ASSERT_OK(Partita_Pready(0, message.send));
  let_go();
  while (FakeGpu::instance().copies() == copies) ASSERT_OK(Partita_Progress(nullptr));
  FakeGpu::instance().limit_copies(0);
  EXPECT_ERROR(Partita_Pready(1, message.send), MPI_ERR_OTHER, "no more copies");
  FakeGpu::instance().limit_copies(FakeGpu::no_limit);
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_OTHER, "Queue_wait", "no more copies");
  expect_to_go_on();
  EXPECT_ERROR(Partita_Wait(&message.receive, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "no more copies");
}

/// The host's own wait ends first, and gives its request up with the engine's lock held.
TEST_F(StreamWorkQueue, a_wait_of_the_host_is_given_up_behind_the_stream) {
  Message moved(9), never(10);
  hold();
  start(never.receive);  // nobody sends
  wait(never.receive);
  ASSERT_OK(Partita_Start(&moved.receive));
  ASSERT_OK(Partita_Start(&moved.send));
  moved.mark();
  std::thread later([this] {
    std::this_thread::sleep_for(limit);
    let_go();
  });
  EXPECT_ERROR(Partita_Wait(&moved.send, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "PARTITA_TIMEOUT");
  later.join();
  expect_too_late();
}

/// The last case: Partita ends and begins anew under it. One queue's copies stand behind the other's stream.
TEST_F(StreamWorkQueue, what_is_left_at_the_end_lets_the_streams_go) {
  Message one(11), another(12);
  Partita_Queue other = make_queue(1);
  hold();
  start(one);
  wait(one.send);
  wait(one.receive);
  std::array requests = {another.receive, another.send};
  ASSERT_OK(Partita_Enqueue_startall(other, 2, requests.data()));
  another.mark();
  ASSERT_OK(Partita_Enqueue_waitall(other, 2, requests.data()));
  let_go();
  std::atomic<bool> over{false};
  worker().ask([&] { over = true; });
  Partita_Finalize();
  worker().drain();
  stream(1).drain();
  EXPECT_TRUE(over);
  for (Message* const each : {&one, &another}) each->send = each->receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  queue_ = make_queue(0);  // for the end of the fixture
}

}  // namespace
}  // namespace partita::test
