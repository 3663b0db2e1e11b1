// Queues of each kind (support/queue_kind.hpp): what is enqueued, in which order it runs, and what is refused.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/board.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/persistent_ring.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

class QueueSuite : public PersistentRing {
 protected:
  QueueSuite() { EXPECT_OK(Partita_Queue_init(&queue_, queue_type(), queue_stream(0))); }
  ~QueueSuite() override {
    EXPECT_OK(Partita_Queue_free(&queue_));
    EXPECT_EQ(PARTITA_QUEUE_NULL, queue_);
  }

  static Partita_Request send(const std::vector<int>& data, int tag) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Send_init(data.data(), static_cast<MPI_Count>(data.size()), MPI_INT, right(), tag, MPI_COMM_WORLD,
                                &made));
    return made;
  }
  /// A receive and a send, matched.
  static std::array<Partita_Request, 2> pair(std::vector<int>& in, const std::vector<int>& out, int tag) {
    std::array requests = {receive(in, tag), send(out, tag)};
    EXPECT_OK(Partita_Matchall(2, requests.data()));
    return requests;
  }
  /// Kernels open the epochs of a send to nobody, which may be of any memory.
  static Partita_Request device_driven() {
    static int value = 0;
    Partita_Request made = PARTITA_REQUEST_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", "device");
    EXPECT_OK(Partita_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 17, MPI_COMM_WORLD, info, &made));
    MPI_Info_free(&info);
    return made;
  }
  /// Where calls return before what they have enqueued has run, it has run now.
  void settle() {
    if (queue_runs_ahead()) {
      EXPECT_OK(Partita_Queue_wait(queue_));
    }
  }
  template <class Requests>
  static void free_all(Requests& requests) {
    for (Partita_Request& each : requests) ASSERT_OK(Partita_Request_free(&each));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

TEST_F(QueueSuite, a_wait_returns_when_its_request_is_complete) {
  for (const std::size_t count : {1, 1'000, 100'000}) {
    std::vector<int> in(count), out(count);
    std::array requests = pair(in, out, 1);
    for (int epoch = 0; epoch < 5; ++epoch) {
      in.assign(count, -1);
      std::iota(out.begin(), out.end(), 1'000 * rank() + epoch);
      ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
      ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
      settle();
      std::vector<int> expected(count);
      std::iota(expected.begin(), expected.end(), 1'000 * left() + epoch);
      ASSERT_EQ(expected, in);
      ASSERT_OK(Partita_Enqueue_wait(queue_, &requests[1]));
      settle();
    }
    ASSERT_OK(Partita_Queue_wait(queue_));
    free_all(requests);
  }
}

/// Sends are started and awaited one after the other, their receives are started together and awaited the other way
/// round.
TEST_F(QueueSuite, the_two_sides_may_wait_in_different_orders) {
  std::vector<int> in_a(50'000), in_b(50'000);
  const std::vector<int> out_a(50'000, rank()), out_b(50'000, 10 + rank());
  std::array a = pair(in_a, out_a, 2), b = pair(in_b, out_b, 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::array receives = {a[0], b[0]}, reversed = {b[0], a[0]};
    ASSERT_OK(Partita_Enqueue_startall(queue_, 2, receives.data()));
    for (Partita_Request* each : {&a[1], &b[1]}) {
      ASSERT_OK(Partita_Enqueue_start(queue_, each));
      ASSERT_OK(Partita_Enqueue_wait(queue_, each));
    }
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, reversed.data()));
    settle();
    EXPECT_EQ(left(), in_a.back());
    EXPECT_EQ(10 + left(), in_b.back());
  }
  free_all(a);
  free_all(b);
}

TEST_F(QueueSuite, partitioned_requests_and_collectives_are_enqueued_and_the_host_marks) {
  std::vector<int> in(4), sum(4);
  const std::vector<int> out(4, rank());
  std::array<Partita_Request, 3> requests{};
  ASSERT_OK(Partita_Precv_init(in.data(), 2, 2, MPI_INT, left(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests.data()));
  ASSERT_OK(Partita_Psend_init(out.data(), 4, 1, MPI_INT, right(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(Partita_Pallreduce_init(out.data(), sum.data(), 2, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &requests[2]));
  ASSERT_OK(Partita_Matchall(3, requests.data()));
  for (int epoch = 0; epoch < 3; ++epoch) {
    in.assign(4, -1);
    sum.assign(4, -1);
    ASSERT_OK(Partita_Enqueue_startall(queue_, 3, requests.data()));
    ASSERT_OK(Partita_Pready_range(0, 3, requests[1]));
    ASSERT_OK(Partita_Pready_range(0, 1, requests[2]));
    int flag = 0;
    ASSERT_OK(Partita_Parrived(requests[0], 0, &flag));
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 3, requests.data()));
    settle();
    EXPECT_EQ(std::vector<int>(4, left()), in);
    EXPECT_EQ(std::vector<int>(4, ranks() * (ranks() - 1) / 2), sum);
  }
  ASSERT_OK(Partita_Queue_wait(queue_));
  free_all(requests);
}

/// A number goes out from one rank, around the ring, and comes together again: each needs what the one before has left.
/// The barrier, at last, needs the rank that comes late to it.
TEST_F(QueueSuite, persistent_collectives_and_messages_run_in_their_order) {
  std::vector<int> told(3), from_left(3), sum(3), before(3);
  std::array<Partita_Request, 6> requests{};
  auto& [bcast, barrier, to_right, to_me, allreduce, scan] = requests;
  ASSERT_OK(Partita_Bcast_init(told.data(), 3, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &bcast));
  ASSERT_OK(Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier));
  to_right = send(told, 6);
  to_me = receive(from_left, 6);
  ASSERT_OK(Partita_Allreduce_init(from_left.data(), sum.data(), 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &allreduce));
  ASSERT_OK(Partita_Scan_init(sum.data(), before.data(), 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &scan));
  ASSERT_OK(Partita_Matchall(6, requests.data()));
  const auto board = Board::make(1);  // null where the ranks share no memory
  for (int epoch = 0; epoch < 4; ++epoch) {
    told.assign(3, rank() == 0 ? epoch : -1);
    for (std::vector<int>* each : {&from_left, &sum, &before}) each->assign(3, -1);
    ASSERT_OK(Partita_Enqueue_start(queue_, &bcast));
    ASSERT_OK(Partita_Enqueue_wait(queue_, &bcast));
    ASSERT_OK(Partita_Enqueue_startall(queue_, 2, &to_right));
    ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, &to_right));
    ASSERT_OK(Partita_Enqueue_start(queue_, &allreduce));
    ASSERT_OK(Partita_Enqueue_wait(queue_, &allreduce));
    ASSERT_OK(Partita_Enqueue_start(queue_, &scan));
    EXPECT_ERROR(Partita_Pready(0, scan), MPI_ERR_REQUEST, "no partitions");
    ASSERT_OK(Partita_Enqueue_wait(queue_, &scan));
    if (rank() == epoch % ranks()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (board != nullptr) board->add(0, 1);
    ASSERT_OK(Partita_Enqueue_start(queue_, &barrier));
    ASSERT_OK(Partita_Enqueue_wait(queue_, &barrier));
    ASSERT_OK(Partita_Queue_wait(queue_));
    if (board != nullptr) {
      EXPECT_LE(static_cast<std::uint32_t>((epoch + 1) * ranks()), board->read(0))
          << "not all have come to the barrier";
    }
    EXPECT_EQ(std::vector<int>(3, epoch * ranks()), sum);
    EXPECT_EQ(std::vector<int>(3, epoch * ranks() * (rank() + 1)), before);
  }
  free_all(requests);
}

TEST_F(QueueSuite, the_host_may_start_what_is_matched_and_not_enqueued) {
  std::vector<int> in(10), out(10);
  std::array requests = pair(in, out, 5);
  for (int epoch = 0; epoch < 4; ++epoch) {
    out.assign(10, 10 * rank() + epoch);
    if ((epoch + rank()) % 2 == 0) {
      ASSERT_OK(Partita_Startall(2, requests.data()));
      ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    } else {
      ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
      ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
      settle();
    }
    EXPECT_EQ(10 * left() + epoch, in[9]);
  }
  free_all(requests);
}

TEST_F(QueueSuite, init_refuses_what_is_no_queue) {
  Partita_Queue none = PARTITA_QUEUE_NULL;
  int stream = 0;
  EXPECT_ERROR(Partita_Queue_init(nullptr, PARTITA_QUEUE_HOST, nullptr), MPI_ERR_ARG, "Queue_init", "queue", "null");
  EXPECT_ERROR(Partita_Queue_init(&none, PARTITA_QUEUE_CUDA, nullptr), MPI_ERR_ARG, "stream is null", "cudaStream_t");
  EXPECT_ERROR(Partita_Queue_init(&none, static_cast<Partita_Queue_type>(3), nullptr), MPI_ERR_ARG, "type is 3",
               "PARTITA_QUEUE_HOST or PARTITA_QUEUE_CUDA");
  EXPECT_ERROR(Partita_Queue_init(&none, PARTITA_QUEUE_HOST, &stream), MPI_ERR_ARG, "stream");
  EXPECT_EQ(PARTITA_QUEUE_NULL, none);
}

TEST_F(QueueSuite, calls_refuse_what_is_no_queue) {
  Partita_Queue freed = PARTITA_QUEUE_NULL, none = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&freed, queue_type(), queue_stream(1)));
  Partita_Queue copy = freed;
  ASSERT_OK(Partita_Queue_free(&freed));
  for (Partita_Queue bad : {copy, none}) {
    const char* const word = bad == none ? "PARTITA_QUEUE_NULL" : "freed already";
    EXPECT_ERROR(Partita_Queue_wait(bad), MPI_ERR_ARG, "Queue_wait", word);
    EXPECT_ERROR(Partita_Queue_free(&bad), MPI_ERR_ARG, "Queue_free", word);
    EXPECT_ERROR(Partita_Enqueue_startall(bad, 0, nullptr), MPI_ERR_ARG, "Enqueue_startall", word);
    EXPECT_ERROR(Partita_Enqueue_waitall(bad, 0, nullptr), MPI_ERR_ARG, "Enqueue_waitall", word);
  }
  EXPECT_ERROR(Partita_Queue_free(nullptr), MPI_ERR_ARG, "PARTITA_QUEUE_NULL");
}

TEST_F(QueueSuite, calls_refuse_wrong_arrays) {
  Partita_Request none = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Enqueue_start(queue_, nullptr), MPI_ERR_REQUEST, "Enqueue_start", "null");
  EXPECT_ERROR(Partita_Enqueue_start(queue_, &none), MPI_ERR_REQUEST, "Enqueue_start", "null");
  EXPECT_ERROR(Partita_Enqueue_wait(queue_, nullptr), MPI_ERR_REQUEST, "Enqueue_wait", "null");
  EXPECT_ERROR(Partita_Enqueue_wait(queue_, &none), MPI_ERR_REQUEST, "Enqueue_wait", "null");
  EXPECT_ERROR(Partita_Enqueue_startall(queue_, -1, &none), MPI_ERR_COUNT, "count", "-1");
  EXPECT_ERROR(Partita_Enqueue_waitall(queue_, -1, &none), MPI_ERR_COUNT, "count", "-1");
  EXPECT_ERROR(Partita_Enqueue_startall(queue_, 1, nullptr), MPI_ERR_ARG, "requests");
  EXPECT_ERROR(Partita_Enqueue_waitall(queue_, 1, nullptr), MPI_ERR_ARG, "requests");
  EXPECT_OK(Partita_Enqueue_startall(queue_, 0, nullptr));
  EXPECT_OK(Partita_Enqueue_waitall(queue_, 0, nullptr));
}

/// Each bad request stands behind a good one, which stays as it is.
TEST_F(QueueSuite, of_a_group_with_one_that_may_not_start_none_is_enqueued) {
  std::vector<int> in(1), in_other(1), in_started(1);
  const std::vector<int> out(1, rank());
  std::array good = pair(in, out, 6), started = pair(in_started, out, 7);
  Partita_Request unmatched = receive(in_other, 8), sent = send(out, 8), matching = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Imatch(&unmatched, &matching));
  Partita_Request driven = device_driven();
  harness_barrier();  // nobody matches its peer yet
  ASSERT_OK(Partita_Startall(2, started.data()));
  const auto refuses = [&](Partita_Request bad, const char* word) {
    std::array group = {good[0], bad};
    EXPECT_ERROR(Partita_Enqueue_startall(queue_, 2, group.data()), MPI_ERR_REQUEST, "Enqueue_startall", word);
  };
  refuses(unmatched, "not matched");
  refuses(sent, "not matched");
  refuses(matching, "Imatch");
  refuses(started[0], "started by the host");
  refuses(good[0], "stands in the array before");
  refuses(PARTITA_REQUEST_NULL, "null");
  if (queue_type() == PARTITA_QUEUE_HOST) refuses(driven, "device-driven");
  EXPECT_ERROR(Partita_Enqueue_start(queue_, &unmatched), MPI_ERR_REQUEST, "not matched");
  EXPECT_ERROR(Partita_Enqueue_wait(queue_, good.data()), MPI_ERR_REQUEST, "no start", "enqueued");
  harness_barrier();

  ASSERT_OK(Partita_Match(&sent));
  ASSERT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  ASSERT_OK(Partita_Waitall(2, started.data(), MPI_STATUSES_IGNORE));
  std::array all = {good[0], good[1], unmatched, sent, started[0], started[1]};
  ASSERT_OK(Partita_Enqueue_startall(queue_, 6, all.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 6, all.data()));
  ASSERT_OK(Partita_Queue_wait(queue_));
  EXPECT_EQ(left(), in_other[0]);
  free_all(all);
  ASSERT_OK(Partita_Request_free(&driven));
}

TEST_F(QueueSuite, a_start_needs_a_wait_before_the_next_and_on_the_same_queue) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 9);
  Partita_Queue other = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&other, queue_type(), queue_stream(1)));
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));

  EXPECT_ERROR(Partita_Enqueue_start(queue_, requests.data()), MPI_ERR_REQUEST, "this queue", "no wait");
  EXPECT_ERROR(Partita_Enqueue_start(other, requests.data()), MPI_ERR_REQUEST, "another queue", "no wait");
  EXPECT_ERROR(Partita_Enqueue_wait(other, requests.data()), MPI_ERR_REQUEST, "in another queue");
  std::array twice = {requests[0], requests[0]};
  EXPECT_ERROR(Partita_Enqueue_waitall(queue_, 2, twice.data()), MPI_ERR_REQUEST, "stands in the array before");
  EXPECT_ERROR(Partita_Queue_free(&queue_), MPI_ERR_REQUEST, "Queue_free", "no wait");
  EXPECT_OK(Partita_Queue_wait(queue_));
  EXPECT_OK(Partita_Queue_free(&other));

  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  EXPECT_ERROR(Partita_Enqueue_wait(queue_, requests.data()), MPI_ERR_REQUEST, "no start", "enqueued");
  settle();
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

TEST_F(QueueSuite, the_host_may_not_touch_what_is_enqueued) {
  std::vector<int> in(1), in_other(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 10), others = pair(in_other, out, 11);
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, requests.data()));
  ASSERT_OK(Partita_Startall(2, others.data()));
  std::array both = {others[0], requests[0]};
  int flag = 0, index = 0, found = 0;
  std::array<int, 2> indices{};
  Partita_Request matching = PARTITA_REQUEST_NULL;
  Partita_Prequest prequest{};
  const auto is_refused = [](int code) { EXPECT_ERROR(code, MPI_ERR_REQUEST, "started in a queue", "host"); };
  for (Partita_Request& each : requests) {
    is_refused(Partita_Start(&each));
    is_refused(Partita_Wait(&each, MPI_STATUS_IGNORE));
    is_refused(Partita_Test(&each, &flag, MPI_STATUS_IGNORE));
    is_refused(Partita_Request_get_status(each, &flag, MPI_STATUS_IGNORE));
    is_refused(Partita_Request_free(&each));
    is_refused(Partita_Match(&each));
    is_refused(Partita_Imatch(&each, &matching));
    is_refused(Partita_Prequest_create(&prequest, each));
  }
  EXPECT_EQ(PARTITA_REQUEST_NULL, matching);
  is_refused(Partita_Startall(1, requests.data()));
  is_refused(Partita_Waitall(2, both.data(), MPI_STATUSES_IGNORE));
  is_refused(Partita_Testall(2, both.data(), &flag, MPI_STATUSES_IGNORE));
  is_refused(Partita_Waitany(2, both.data(), &index, MPI_STATUS_IGNORE));
  is_refused(Partita_Testany(2, both.data(), &index, &flag, MPI_STATUS_IGNORE));
  is_refused(Partita_Waitsome(2, both.data(), &found, indices.data(), MPI_STATUSES_IGNORE));
  is_refused(Partita_Testsome(2, both.data(), &found, indices.data(), MPI_STATUSES_IGNORE));

  ASSERT_OK(Partita_Waitall(2, others.data(), MPI_STATUSES_IGNORE));  // none of them was completed by these
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, requests.data()));
  settle();
  EXPECT_EQ(left(), in[0]);
  EXPECT_EQ(left(), in_other[0]);
  free_all(requests);
  free_all(others);
}

/// Kernels can use a request to nobody whatever its buffer.
TEST_F(QueueSuite, device_requests_are_neither_made_nor_freed_of_what_is_enqueued) {
  int value = 0;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 16, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  Partita_Prequest prequest{}, second{};
  ASSERT_OK(Partita_Prequest_create(&prequest, request));
  ASSERT_OK(Partita_Enqueue_start(queue_, &request));
  EXPECT_ERROR(Partita_Prequest_create(&second, request), MPI_ERR_REQUEST, "started in a queue");
  EXPECT_ERROR(Partita_Prequest_free(&prequest), MPI_ERR_REQUEST, "started in a queue");
  ASSERT_OK(Partita_Enqueue_wait(queue_, &request));
  settle();
  EXPECT_OK(Partita_Prequest_free(&prequest));
  EXPECT_OK(Partita_Request_free(&request));
}

/// The peer has freed its end: whether the start or the wait hears of it, both return, and Queue_wait tells.
TEST_F(QueueSuite, errors_of_what_runs_come_out_of_the_wait_for_the_queue) {
  std::vector<int> in(1), in_other(1);
  const std::vector<int> out(1, rank());
  std::array requests = pair(in, out, 12), others = pair(in_other, out, 13);
  ASSERT_OK(Partita_Request_free(&requests[1]));
  ASSERT_OK(Partita_Enqueue_start(queue_, requests.data()));
  ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
  // The others of the queue are none the worse.
  ASSERT_OK(Partita_Enqueue_startall(queue_, 2, others.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 2, others.data()));
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_REQUEST, "Queue_wait", "freed its request");
  EXPECT_EQ(left(), in_other[0]);
  EXPECT_OK(Partita_Queue_wait(queue_));

  // A free waits for the queue, too.
  Partita_Queue other = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&other, queue_type(), queue_stream(1)));
  ASSERT_OK(Partita_Enqueue_start(other, requests.data()));
  ASSERT_OK(Partita_Enqueue_wait(other, requests.data()));
  EXPECT_ERROR(Partita_Queue_free(&other), MPI_ERR_REQUEST, "Queue_free");
  EXPECT_EQ(PARTITA_QUEUE_NULL, other);
  ASSERT_OK(Partita_Request_free(requests.data()));
  free_all(others);
}

int heard = 0;

void count_error(MPI_Comm*, int*, ...) {
  ++heard;
}

/// The queue's own calls concern no communicator: that of the request hears. Its handler goes with the test's.
TEST_F(QueueSuite, the_handler_of_the_requests_communicator_hears_a_late_error) {
  std::vector<int> in(1);
  const std::vector<int> out(1);
  std::array requests = pair(in, out, 18);
  ASSERT_OK(Partita_Request_free(&requests[1]));
  heard = 0;
  MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_error, &counting);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting);
  MPI_Errhandler_free(&counting);
  ASSERT_OK(Partita_Enqueue_start(queue_, requests.data()));
  ASSERT_OK(Partita_Enqueue_wait(queue_, requests.data()));
  EXPECT_EQ(0, heard);
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_REQUEST, "Queue_wait", "freed its request");
  EXPECT_EQ(1, heard);
  ASSERT_OK(Partita_Request_free(requests.data()));
}

/// The match was refused on both sides: a request that has failed spoils no group that it is enqueued with.
TEST_F(QueueSuite, what_has_failed_before_is_enqueued_and_told_late) {
  std::vector<int> in(1), in_other(1);
  const std::vector<int> out(2), out_other(1, rank());
  std::array failed = {receive(in, 14), send(out, 14)}, others = pair(in_other, out_other, 15);
  std::array<Partita_Request, 2> matching{};
  for (std::size_t i = 0; i < 2; ++i) ASSERT_OK(Partita_Imatch(&failed[i], &matching[i]));
  for (Partita_Request& each : matching) {
    EXPECT_ERROR(Partita_Wait(&each, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "8 bytes");
  }
  std::array group = {failed[0], others[0], others[1], failed[1]};
  ASSERT_OK(Partita_Enqueue_startall(queue_, 4, group.data()));
  ASSERT_OK(Partita_Enqueue_waitall(queue_, 4, group.data()));
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_TRUNCATE, "Queue_wait", "8 bytes");
  EXPECT_EQ(left(), in_other[0]);
  free_all(matching);
  free_all(group);
}

/// Far ranks may be matched with others that are right, and hear of it from these.
TEST_F(QueueSuite, ranks_that_enqueue_different_collectives_hear_of_it) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  int in = 1, sum = -1;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(rank() == 0
                ? Partita_Allreduce_init(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)
                : Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  if (const int code = Partita_Match(&request); code != MPI_SUCCESS || rank() == 0) {
    EXPECT_ERROR(code, MPI_ERR_REQUEST, "a persistent allreduce", "a persistent barrier");
  }
  ASSERT_OK(Partita_Enqueue_start(queue_, &request));
  ASSERT_OK(Partita_Enqueue_wait(queue_, &request));
  EXPECT_ERROR(Partita_Queue_wait(queue_), MPI_ERR_REQUEST, "Queue_wait", "a persistent allreduce",
               "a persistent barrier");
  harness_barrier();
  ASSERT_OK(Partita_Request_free(&request));
}

}  // namespace
}  // namespace partita::test
