// What a queue of a stream promises beside what every queue does: its order with the stream's other work, and that a
// stream is let go whatever goes wrong. On streams of the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>
#include <partita/partita.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/persistent_ring.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

using namespace std::chrono_literals;

/// Long enough for what does not wait.
constexpr auto a_while = 30ms;

class StreamOrder : public PersistentRing {
 protected:
  StreamOrder() { EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, queue_stream(0))); }
  ~StreamOrder() override {
    worker().drain();
    EXPECT_OK(Partita_Queue_free(&queue_));
  }

  static FakeWorker& worker() { return *static_cast<FakeWorker*>(*static_cast<void**>(queue_stream(0))); }
  static void launch(std::function<void()> kernel) { worker().ask(std::move(kernel)); }
  /// What comes behind waits for the result's store.
  std::atomic<bool>& hold() {
    go_ = false;
    launch([this] {
      while (!go_) std::this_thread::yield();
    });
    return go_;
  }

  std::array<Partita_Request, 2> pair(std::vector<int>& in, const std::vector<int>& out, int tag) {
    std::array requests = {receive(in, tag), PARTITA_REQUEST_NULL};
    EXPECT_OK(Partita_Send_init(out.data(), static_cast<MPI_Count>(out.size()), MPI_INT, right(), tag, MPI_COMM_WORLD,
                                &requests[1]));
    EXPECT_OK(Partita_Matchall(2, requests.data()));
    return requests;
  }
  template <class Requests>
  static void free_all(Requests& requests) {
    for (Partita_Request& each : requests) ASSERT_OK(Partita_Request_free(&each));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
  std::atomic<bool> go_{false};
};
using StreamOrderTimeout = StreamOrder;

TEST_F(StreamOrder, starts_and_waits_take_their_places_among_kernels) {
  std::vector<int> in(100, -1), out(100);
  std::array requests = pair(in, out, 1);
  std::atomic<bool> over{false};
  std::atomic<bool>& go = hold();
  launch([&] { out.assign(100, rank() + 10); });
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  std::vector<int> seen;
  launch([&] {
    seen = in;
    over = true;
  });
  std::this_thread::sleep_for(a_while);
  EXPECT_FALSE(over);
  harness_barrier();  // nobody has sent yet
  go = true;
  ASSERT_OK(Partita_Queue_wait(queue_));
  worker().drain();
  EXPECT_EQ(std::vector<int>(100, left() + 10), seen);
  free_all(requests);
}

TEST_F(StreamOrder, a_queue_of_the_cpp_api_is_the_streams) {
  std::vector<int> in(1, -1), out(1);
  const std::array handles = pair(in, out, 20);
  std::array requests = {request(handles[0]), request(handles[1])};
  queue order = queue::cuda(*static_cast<void**>(queue_stream(0)));
  std::atomic<bool>& go = hold();
  launch([&] { out[0] = rank() + 10; });
  order.enqueue_startall(requests);
  order.enqueue_wait(requests[1]);
  order.enqueue_wait(requests[0]);
  int seen = 0;
  launch([&] { seen = in[0]; });
  EXPECT_THROW(requests[0].wait(), error) << "it is the queue's";
  go = true;
  order.wait();
  worker().drain();
  EXPECT_EQ(left() + 10, seen);
  order.free();
}

TEST_F(StreamOrder, only_a_wait_holds_the_stream) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 2);
  std::atomic<bool> passed{false}, over{false};
  ASSERT_OK(Partita_Enqueue_start(queue_, requests.data()));
  launch([&] { passed = true; });
  while (!passed) std::this_thread::yield();
  ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
  launch([&] { over = true; });
  std::this_thread::sleep_for(a_while);
  EXPECT_FALSE(over);
  harness_barrier();
  ASSERT_OK(Partita_Start(&requests[1]));
  ASSERT_OK(Partita_Queue_wait(queue_));
  ASSERT_OK(Partita_Wait(&requests[1], MPI_STATUS_IGNORE));
  worker().drain();
  EXPECT_TRUE(over);
  free_all(requests);
}

/// More than a queue keeps under way: a call waits for the stream then.
TEST_F(StreamOrder, many_epochs_are_enqueued_without_looking_back) {
  constexpr int epochs = 100;
  std::vector<int> in(10), out(10);
  std::array requests = pair(in, out, 3);
  int wrong = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    launch([&, epoch] { out.assign(10, 1'000 * rank() + epoch); });
    ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
    launch([&, epoch] { wrong += in != std::vector<int>(10, 1'000 * left() + epoch); });
  }
  ASSERT_OK(Partita_Queue_wait(queue_));
  worker().drain();
  EXPECT_EQ(0, wrong);
  free_all(requests);
}

/// Kernels mark behind the start, and it has run.
TEST_F(StreamOrder, kernels_mark_partitions_of_what_is_enqueued) {
  constexpr int partitions = 4, epochs = 20;
  const FakeGpuBuffer out(mapped, partitions * sizeof(int)), in(mapped, partitions * sizeof(int));
  int* const sent = reinterpret_cast<int*>(out.data());
  const int* const received = reinterpret_cast<int*>(in.data());
  std::array<Partita_Request, 2> requests{};
  ASSERT_OK(
      Partita_Precv_init(in.data(), 1, partitions, MPI_INT, left(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests.data()));
  ASSERT_OK(
      Partita_Psend_init(out.data(), partitions, 1, MPI_INT, right(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  Partita_Prequest prequest{};
  ASSERT_OK(Partita_Prequest_create(&prequest, requests[1]));
  int failed = 0, wrong = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
    launch([&, epoch] {
      for (int p = 0; p < partitions; ++p) {
        sent[p] = 100 * rank() + epoch + p;
        failed += MPIX_Pready(p, prequest) != PARTITA_DEVICE_SUCCESS;
      }
    });
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
    launch([&, epoch] {
      for (int p = 0; p < partitions; ++p) wrong += received[p] != 100 * left() + epoch + p;
    });
  }
  ASSERT_OK(Partita_Queue_wait(queue_));
  worker().drain();
  EXPECT_EQ(0, failed);
  EXPECT_EQ(0, wrong);
  ASSERT_OK(Partita_Prequest_free(&prequest));
  free_all(requests);
  harness_barrier();  // requests before buffers, on both sides
}

/// Two epochs ahead of the stream, too; what is wrong with a mark comes late then.
TEST_F(StreamOrder, marks_of_the_host_wait_for_the_start) {
  std::vector<int> in(4), out(4, rank());
  std::array<Partita_Request, 2> requests{};
  ASSERT_OK(Partita_Precv_init(in.data(), 2, 2, MPI_INT, left(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests.data()));
  ASSERT_OK(Partita_Psend_init(out.data(), 4, 1, MPI_INT, right(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  std::atomic<bool>& go = hold();
  int flag = -1;
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
    ASSERT_OK(Partita_Pready(0, requests[1]));
    ASSERT_OK(Partita_Pready_range(1, 2, requests[1]));
    const int last = 3;
    ASSERT_OK(Partita_Pready_list(1, &last, requests[1]));
    ASSERT_OK(Partita_Parrived(requests[0], 0, &flag));
    EXPECT_EQ(0, flag);
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  }
  go = true;
  ASSERT_OK(Partita_Queue_wait(queue_));
  EXPECT_EQ(std::vector<int>(4, left()), in);

  std::atomic<bool>& go_on = hold();
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Pready_range(0, 3, requests[1]));
  ASSERT_OK(Partita_Pready(2, requests[1]));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  go_on = true;
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_ARG, "Queue_wait", "partition 2", "marked");
  free_all(requests);
}

TEST_F(StreamOrder, a_stream_that_is_captured_is_refused) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 6);
  worker().begin_capture();
  EXPECT_ERROR(Partita_Enqueue_startall(queue_, 2, requests.data()), MPI_ERR_ARG, "Enqueue_startall", "captured");
  EXPECT_TRUE(worker().end_capture().empty());
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  worker().begin_capture();
  EXPECT_ERROR(Partita_Enqueue_waitall(queue_, 2, requests.data()), MPI_ERR_ARG, "Enqueue_waitall", "captured");
  EXPECT_TRUE(worker().end_capture().empty());
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Queue_wait(queue_));
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

/// What is enqueued in two queues is started in the other one only when it is over.
TEST_F(StreamOrder, a_request_changes_its_queue_when_its_wait_is_over) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 7);
  Partita_Queue other = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&other, PARTITA_QUEUE_CUDA, queue_stream(1)));
  std::atomic<bool>& go = hold();
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  EXPECT_ERROR(Partita_Enqueue_start(other, requests.data()), MPI_ERR_REQUEST, "another queue", "not over");
  EXPECT_ERROR(Partita_Start(requests.data()), MPI_ERR_REQUEST, "started in a queue");
  go = true;
  ASSERT_OK(Partita_Queue_wait(queue_));
  ASSERT_OK(Partita_Enqueue_startall(other, 2, requests.data()));
  ASSERT_OK(Partita_Enqueue_waitall(other, 2, requests.data()));
  ASSERT_OK(Partita_Queue_free(&other));  // waits
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

/// Nobody sends: behind the limit the stream goes on, and what is enqueued for others.
TEST_F(StreamOrderTimeout, lets_the_stream_go) {
  std::vector<int> in(1), in_other(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 8), others = pair(in_other, out, 9);
  std::atomic<bool> over{false};
  harness_barrier();  // the limits of both ranks begin together: nobody's second pair comes late to the other's
  ASSERT_OK(Partita_Enqueue_start(queue_, requests.data()));
  ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, others.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, others.data()));
  launch([&] { over = true; });
  worker().drain();
  EXPECT_TRUE(over);
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  EXPECT_EQ(left(), in_other[0]);
  EXPECT_OK(Partita_Queue_wait(queue_));
  harness_barrier();  // a free of what the other still waits for would end its wait first
  free_all(requests);
  free_all(others);
}

/// The program's own work takes longer than a wait may.
TEST_F(StreamOrderTimeout, ends_a_wait_for_a_stream_that_does_not_come) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 10);
  std::atomic<bool>& go = hold();
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_OTHER, "PARTITA_TIMEOUT", "work of the program is in front");
  harness_barrier();
  go = true;
  EXPECT_OK(Partita_Queue_wait(queue_));
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

/// One that has failed comes nowhere; queues on it fail instead of waiting for it.
TEST_F(StreamOrder, a_gpu_that_has_failed_ends_its_queues) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 11);
  Partita_Queue other = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&other, PARTITA_QUEUE_CUDA, queue_stream(0)));
  std::atomic<bool>& go = hold();
  ASSERT_OK(Partita_Enqueue_startall(other, 2, requests.data()));
  ASSERT_OK(Partita_Enqueue_waitall(other, 2, requests.data()));
  FakeGpu::instance().fail(mapped);
  EXPECT_ERROR(Partita_Queue_wait(other), MPI_ERR_OTHER, "Queue_wait", "illegal access");
  FakeGpu::instance().mend(mapped);
  go = true;
  worker().drain();
  EXPECT_OK(Partita_Queue_free(&other));
  free_all(requests);
}

/// The last case: Partita ends and begins anew under it.
TEST_F(StreamOrder, what_is_left_at_the_end_lets_the_stream_go) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 12);
  std::atomic<bool> over{false};
  ASSERT_OK(Partita_Enqueue_start(queue_, requests.data()));
  ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
  launch([&] { over = true; });
  Partita_Finalize();
  worker().drain();
  EXPECT_TRUE(over);
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  ASSERT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, queue_stream(0)));  // for the end of the fixture
}

}  // namespace
}  // namespace partita::test
