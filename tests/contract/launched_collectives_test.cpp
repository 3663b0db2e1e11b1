// Collectives whose epochs kernels open, launched by the library: through queues of the fake GPU's streams, alone and
// between calls of the program's own kernels, also where a stream is captured; and what goes wrong with them.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/kernel_collective_case.hpp"
#include "support/kernel_ways.hpp"
#include "support/sanitized.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

constexpr const char* launched_algorithms[] = {"packets", "buffers"};

/// A queue of a stream, and what the program itself asks of that.
class LaunchQueue {
 public:
  LaunchQueue() { EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, &native_)); }
  ~LaunchQueue() { EXPECT_OK(Partita_Queue_free(&queue_)); }
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;

  Partita_Queue handle() const { return queue_; }
  FakeWorker& stream() { return stream_; }
  void start(Case& collective) const { ASSERT_OK(Partita_Enqueue_start(queue_, &collective.request)); }
  void wait(Case& collective) const { ASSERT_OK(Partita_Enqueue_wait(queue_, &collective.request)); }
  void finish() const { ASSERT_OK(Partita_Queue_wait(queue_)); }
  /// The stream writes what is sent, does the collective and looks at what came.
  void run(Case& collective, int epoch) {
    stream_.ask([&collective, epoch] { collective.write(epoch); });
    start(collective);
    wait(collective);
    stream_.ask([&collective, epoch] { collective.expect_all(epoch); });
  }

 private:
  FakeWorker stream_;
  void* native_ = &stream_;
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

void match(Case& collective) {
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  ASSERT_OK(Partita_Match(&collective.request));
}

using LaunchedWay = KernelWay<Kind>;

class LaunchedCollectives : public testing::TestWithParam<LaunchedWay> {
 protected:
  static Kind kind() { return std::get<0>(GetParam()); }
  static const char* algorithm() { return std::get<1>(GetParam()); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Nobody waits for the stream until its end. Also where the library's epochs pass 2^32 meanwhile, in the entry wrap.
TEST_P(LaunchedCollectives, go_on_epoch_after_epoch_in_the_order_of_the_stream) {
  for (const int count : {1, 77, 2000}) {
    Case collective(kind(), count, false, mapped, algorithm());
    match(collective);
    LaunchQueue queue;
    for (int epoch = 1; epoch <= 6; ++epoch) queue.run(collective, epoch);
    queue.finish();
    queue.stream().drain();
    EXPECT_EQ(told(collective.request, "partita_algorithm"), algorithm());
    EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "kernel");
  }
}

/// More than are under way at once.
TEST_P(LaunchedCollectives, many_epochs_are_enqueued_ahead) {
  Case collective(kind(), 1, false, mapped, algorithm());
  match(collective);
  LaunchQueue queue;
  // More than a queue lets be under way; of one, as that is the same for all.
  const int epochs = kind() == Kind::allreduce ? repetitions(200, 40) : repetitions(40, 8);
  for (int epoch = 1; epoch <= epochs; ++epoch) queue.run(collective, epoch);
  queue.finish();
  queue.stream().drain();
}

/// The epochs of both are one order.
TEST_P(LaunchedCollectives, take_turns_with_calls_in_kernels) {
  Case collective(kind(), 500, false, mapped, algorithm());
  match(collective);
  LaunchQueue queue;
  int epoch = 1;
  for (int turn = 0; turn < 3; ++turn) {
    queue.run(collective, epoch++);
    queue.finish();
    queue.stream().drain();
    collective.create();
    collective.run(own_grid(), epoch++, 1);
    queue.run(collective, epoch++);
    queue.run(collective, epoch++);
    queue.finish();
    queue.stream().drain();
    collective.run(own_grid(), epoch++, 1);
    collective.free_device_request();
  }
}

/// Each launch of the graph is the next epoch.
TEST_P(LaunchedCollectives, are_captured_into_graphs) {
  Case collective(kind(), 77, false, mapped, algorithm());
  match(collective);
  LaunchQueue queue;
  std::atomic<int> epoch{1};
  queue.run(collective, epoch++);
  queue.stream().begin_capture();
  queue.stream().ask([&] { collective.write(epoch); });
  queue.start(collective);
  queue.wait(collective);
  queue.stream().ask([&] { collective.expect_all(epoch++); });
  const std::vector<FakeWorker::Operation> graph = queue.stream().end_capture();
  for (int replay = 0; replay < 5; ++replay) {
    for (const FakeWorker::Operation& node : graph) queue.stream().ask(node);
  }
  queue.stream().drain();
  EXPECT_EQ(epoch, 7);
  queue.run(collective, epoch);
  queue.finish();
  queue.stream().drain();
}

INSTANTIATE_TEST_SUITE_P(All, LaunchedCollectives, testing::ValuesIn(kernel_ways(kinds)), name_of_way<Kind>);

class LaunchedCollective : public testing::Test {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// What is the stream's own is the host's again behind Queue_wait, and not before.
TEST_F(LaunchedCollective, is_the_queues_until_queue_wait) {
  Case collective(Kind::allreduce, 4);
  match(collective);
  LaunchQueue queue, other;
  queue.start(collective);
  EXPECT_ERROR(Partita_Enqueue_start(queue.handle(), &collective.request), MPI_ERR_REQUEST, "no wait for it");
  queue.wait(collective);
  EXPECT_ERROR(Partita_Enqueue_start(other.handle(), &collective.request), MPI_ERR_REQUEST, "another queue");
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST, "queue");
  EXPECT_ERROR(Partita_Request_free(&collective.request), MPI_ERR_REQUEST, "queue");
  queue.finish();
  other.run(collective, 1);
  other.finish();
  other.stream().drain();
}

/// Its peers' streams stand at the collective until it comes.
TEST_F(LaunchedCollective, waits_for_a_rank_that_comes_late) {
  Case collective(Kind::allreduce, 100);
  match(collective);
  LaunchQueue queue;
  std::atomic<bool> go{rank() != root()}, over{false};
  queue.stream().ask([&] {
    while (!go) std::this_thread::yield();
  });
  queue.run(collective, 1);
  queue.stream().ask([&] { over = true; });
  harness_barrier();
  EXPECT_FALSE(over) << "the last rank has not begun";
  harness_barrier();
  go = true;
  queue.finish();
  queue.stream().drain();
  EXPECT_TRUE(over);
}

/// Messages of the progress engine and launched collectives, in one queue.
TEST_F(LaunchedCollective, keeps_its_place_among_messages) {
  Case collective(Kind::allgather, 10);
  match(collective);
  int in = -1, out = -1;
  Partita_Request messages[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_OK(Partita_Recv_init(&in, 1, MPI_INT, (rank() + ranks() - 1) % ranks(), 3, MPI_COMM_WORLD, &messages[0]));
  ASSERT_OK(Partita_Send_init(&out, 1, MPI_INT, (rank() + 1) % ranks(), 3, MPI_COMM_WORLD, &messages[1]));
  ASSERT_OK(Partita_Matchall(2, messages));
  LaunchQueue queue;
  for (int epoch = 1; epoch <= 10; ++epoch) {
    queue.stream().ask([&] { out = in + 1; });
    ASSERT_OK(Partita_Enqueue_startall(queue.handle(), 2, messages));
    queue.run(collective, epoch);
    ASSERT_OK(Partita_Enqueue_waitall(queue.handle(), 2, messages));
  }
  queue.finish();
  queue.stream().drain();
  EXPECT_EQ(in, 9);
  for (Partita_Request& each : messages) ASSERT_OK(Partita_Request_free(&each));
}

/// The error is late, and told once; what else is in the stream goes on.
TEST_F(LaunchedCollective, tells_late_of_a_rank_that_has_given_up) {
  for (int i = 0; i < 10; ++i) {
    const Kind kind = kinds[i / 2];
    step(name_of(kind));
    Case collective(kind, 4, false, mapped, launched_algorithms[i % 2]);
    Case other(Kind::allreduce, 4);
    match(collective);
    match(other);
    LaunchQueue queue;
    queue.run(collective, 1);
    queue.finish();
    harness_barrier();
    if (rank() == root()) {
      collective.create();
      EXPECT_EQ(MPIX_Pstart(collective.device), PARTITA_DEVICE_ERR_DRIVER);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "a call that is not for this");
    } else {
      for (int epoch = 0; epoch < 2; ++epoch) {
        queue.start(collective);
        queue.wait(collective);
      }
    }
    queue.run(other, 1);
    if (rank() == root()) {
      queue.finish();
      queue.start(collective);  // none of it is launched
      queue.wait(collective);
      EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_REQUEST, "an earlier epoch of the request ended");
    } else {
      EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_OTHER, "Queue_wait", "gave its request up");
    }
    queue.finish();
  }
}

/// The step of the progress engine that gives one up waits for no copy of the GPU, which may have work in front of it.
TEST_F(LaunchedCollective, is_given_up_before_the_gpu_says_how_far_it_is) {
  Case collective(Kind::allreduce, 4);
  match(collective);
  collective.create();
  LaunchQueue queue;
  if (rank() == root()) queue.stream().ask([&] { MPIX_Pstart(collective.device); });  // a mistake
  queue.run(collective, 1);
  queue.stream().drain();
  harness_barrier();
  if (rank() == root()) {
    FakeGpu& gpu = FakeGpu::instance();
    gpu.hold_all(true);
    const std::uint64_t copies = gpu.awaited_copies();
    EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_OTHER, "Queue_wait", "a call that is not for this");
    EXPECT_EQ(copies, gpu.awaited_copies());
    // A start behind that is refused, which asks for nothing: what the GPU said now would come behind the release.
    const std::uint64_t asked = gpu.copies();
    queue.start(collective);
    queue.wait(collective);
    EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_REQUEST, "an earlier epoch of the request ended");
    EXPECT_EQ(asked, gpu.copies());
    gpu.hold_all(false);
  } else {
    queue.finish();
  }
  harness_barrier();
}

/// One rank has no memory for what its kernels work with: the others, whose kernels wait for it, hear of that.
TEST_F(LaunchedCollective, ends_everywhere_where_a_start_fails) {
  Case collective(Kind::allreduce, 4);
  match(collective);
  harness_barrier();
  LaunchQueue queue;
  if (rank() == root()) FakeGpu::instance().fail_next(FakeGpu::Step::allocate_block);
  queue.start(collective);
  queue.wait(collective);
  const char* const why = rank() == root() ? "the fake GPU is to fail" : "gave its request up";
  EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_NO_MEM, "Queue_wait", why);
  harness_barrier();
}

TEST_F(LaunchedCollective, is_refused_by_queues_of_the_host) {
  Case collective(Kind::allreduce, 4);
  match(collective);
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_HOST, nullptr));
  EXPECT_ERROR(Partita_Enqueue_start(queue, &collective.request), MPI_ERR_REQUEST, "Enqueue_start", "device-driven");
  ASSERT_OK(Partita_Queue_free(&queue));
}

TEST_F(LaunchedCollective, is_refused_where_the_stream_is_another_gpus) {
  Case collective(Kind::allreduce, 4, false, blocks_mapped);
  match(collective);
  LaunchQueue queue;
  EXPECT_ERROR(Partita_Enqueue_start(queue.handle(), &collective.request), MPI_ERR_REQUEST, "Enqueue_start",
               "its buffers are memory of GPU 5, and the stream is one of GPU 4");
}

/// No device request is made before the match.
TEST_F(LaunchedCollective, is_refused_before_its_match) {
  if (ranks() == 1) GTEST_SKIP() << "one rank is matched from the beginning";
  harness_barrier();
  if (rank() != 0) harness_barrier();
  Case collective(Kind::allreduce, 4);
  if (rank() == 0) {
    LaunchQueue queue;
    EXPECT_ERROR(Partita_Enqueue_start(queue.handle(), &collective.request), MPI_ERR_REQUEST, "not matched");
    harness_barrier();
  }
  match(collective);
}

/// What only the progress engine can run is no node of a graph, and the capture goes on.
TEST_F(LaunchedCollective, alone_is_captured) {
  Case collective(Kind::allreduce, 4);
  match(collective);
  const FakeGpuBuffer buffer(mapped, 1024);
  Partita_Request by_host = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Pbcast_init(buffer.data(), 1, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &by_host));
  ASSERT_OK(Partita_Match(&by_host));
  LaunchQueue queue;
  queue.start(collective);
  queue.stream().begin_capture();
  EXPECT_ERROR(Partita_Enqueue_start(queue.handle(), &by_host), MPI_ERR_ARG, "captured", "progress engine");
  EXPECT_ERROR(Partita_Enqueue_wait(queue.handle(), &collective.request), MPI_ERR_ARG,
               "the start of request 0 was not");
  EXPECT_TRUE(queue.stream().end_capture().empty());
  queue.wait(collective);
  queue.stream().begin_capture();
  queue.start(collective);
  EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_ARG, "captured");
  EXPECT_EQ(queue.stream().end_capture().size(), 1u);
  EXPECT_ERROR(Partita_Enqueue_wait(queue.handle(), &collective.request), MPI_ERR_ARG, "was captured into a graph");
  queue.stream().begin_capture();
  queue.wait(collective);
  EXPECT_TRUE(queue.stream().end_capture().empty());
  queue.finish();
  ASSERT_OK(Partita_Request_free(&by_host));
}

/// GPUs do not compute with these numbers.
TEST_F(LaunchedCollective, reduces_only_what_kernels_can) {
  const FakeGpuBuffer buffer(mapped, 1024);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Pallreduce_init(MPI_IN_PLACE, buffer.data(), 1, 4, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                                       info, &request),
               MPI_ERR_TYPE, "Pallreduce_init");
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
  PMPI_Info_free(&info);
}

class LaunchedCollectiveTimeout : public LaunchedCollective {};

/// In the entry timeout, with a short limit. Its stream goes on.
TEST_F(LaunchedCollectiveTimeout, ends_late_and_with_it_the_request) {
  for (const char* const algorithm : launched_algorithms) {
    Case collective(Kind::allreduce, 4, false, mapped, algorithm);
    harness_barrier();  // the limit holds for the match and the making, too: nobody comes late to them
    match(collective);
    harness_barrier();
    collective.create();
    if (rank() != 0) continue;
    LaunchQueue queue;
    std::atomic<bool> over{false};
    queue.start(collective);
    queue.wait(collective);
    queue.start(collective);  // launched behind it
    queue.wait(collective);
    queue.stream().ask([&] { over = true; });
    EXPECT_ERROR(Partita_Queue_wait(queue.handle()), MPI_ERR_OTHER, "Queue_wait", "waited longer than", "allreduce");
    queue.stream().drain();
    EXPECT_TRUE(over);
    queue.finish();
  }
}

}  // namespace
}  // namespace partita::test
