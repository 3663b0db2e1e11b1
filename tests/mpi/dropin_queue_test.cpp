// The MPI's persistent requests through the drop-in: the MPI's until they are matched, then Partita's; and queues.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "support/allocations.hpp"
#include "support/completion.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

using Init = decltype(&MPI_Send_init);

/// Each rank sends to its right neighbour and receives from its left one.
class DropinQueue : public testing::Test {
 protected:
  static int right() { return (rank() + 1) % ranks(); }
  static int left() { return (rank() + ranks() - 1) % ranks(); }

  static MPI_Request send(const std::vector<int>& data, int tag, Init init = MPI_Send_init) {
    MPI_Request made = MPI_REQUEST_NULL;
    EXPECT_OK(init(data.data(), static_cast<int>(data.size()), MPI_INT, right(), tag, MPI_COMM_WORLD, &made));
    return made;
  }
  static MPI_Request receive(std::vector<int>& data, int tag, int source = left()) {
    MPI_Request made = MPI_REQUEST_NULL;
    EXPECT_OK(MPI_Recv_init(data.data(), static_cast<int>(data.size()), MPI_INT, source, tag, MPI_COMM_WORLD, &made));
    return made;
  }
  static bool is_matched(MPI_Request request) {
    int flag = -1;
    EXPECT_OK(MPIX_Is_matched(request, &flag));
    return flag == 1;
  }
  /// An epoch of a receive and a send that the host starts.
  static void exchange(std::array<MPI_Request, 2>& requests) {
    ASSERT_OK(MPI_Startall(2, requests.data()));
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  }
  template <class Requests>
  static void free_all(Requests& requests) {
    for (MPI_Request& each : requests) {
      ASSERT_OK(MPI_Request_free(&each));
      EXPECT_EQ(MPI_REQUEST_NULL, each);
    }
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_F(DropinQueue, requests_of_every_mode_are_the_mpis_before_the_match_and_ours_behind_it) {
  // A wait for the neighbour's message does not say that the own one has left it.
  std::vector<char> buffer(8 * (100 * sizeof(int) + MPI_BSEND_OVERHEAD));
  ASSERT_OK(MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size())));
  for (const Init init : {MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Bsend_init}) {
    std::vector<int> in(100), out(100);
    std::array requests = {receive(in, 1), send(out, 1, init)};
    for (int epoch = 0; epoch < 6; ++epoch) {
      if (epoch == 3) {
        EXPECT_FALSE(is_matched(requests[0]) || is_matched(requests[1]));
        ASSERT_OK(MPIX_Matchall(2, requests.data()));
        EXPECT_TRUE(is_matched(requests[0]) && is_matched(requests[1]));
        ASSERT_OK(MPIX_Matchall(2, requests.data()));  // again changes nothing
      }
      out.assign(100, 10 * rank() + epoch);
      ASSERT_OK(MPI_Start(requests.data()));
      harness_barrier();  // for the ready send
      ASSERT_OK(MPI_Start(&requests[1]));
      std::array<MPI_Status, 2> statuses{};
      ASSERT_OK(MPI_Waitall(2, requests.data(), statuses.data()));
      EXPECT_EQ(std::vector<int>(100, 10 * left() + epoch), in);
      EXPECT_EQ(left(), statuses[0].MPI_SOURCE);
    }
    free_all(requests);
  }
  void* detached = nullptr;
  int size_bytes = 0;
  ASSERT_OK(MPI_Buffer_detach(&detached, &size_bytes));
}

#if MPI_VERSION >= 4
TEST_F(DropinQueue, requests_with_large_counts_are_matched) {
  std::vector<int> in(3);
  const std::vector<int> out(3, rank());
  std::array<MPI_Request, 2> requests;
  ASSERT_OK(MPI_Recv_init_c(in.data(), 3, MPI_INT, left(), 13, MPI_COMM_WORLD, requests.data()));
  ASSERT_OK(MPI_Send_init_c(out.data(), 3, MPI_INT, right(), 13, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  EXPECT_TRUE(is_matched(requests[0]) && is_matched(requests[1]));
  exchange(requests);
  EXPECT_EQ(std::vector<int>(3, left()), in);
  free_all(requests);
}
#endif

TEST_F(DropinQueue, requests_of_a_part_of_the_ranks_are_matched) {
  MPI_Comm half = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, -rank(), &half));
  int place = 0, size = 0;
  MPI_Comm_rank(half, &place);
  MPI_Comm_size(half, &size);
  int in = -1;
  const int out = place;
  std::array<MPI_Request, 2> requests;
  ASSERT_OK(MPI_Recv_init(&in, 1, MPI_INT, (place + size - 1) % size, 14, half, requests.data()));
  ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, (place + 1) % size, 14, half, &requests[1]));
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  exchange(requests);
  EXPECT_EQ((place + size - 1) % size, in);
  free_all(requests);
  ASSERT_OK(MPI_Comm_free(&half));
}

/// The first ranks of both groups talk.
TEST_F(DropinQueue, requests_between_two_groups_are_matched) {
  if (ranks() < 2) GTEST_SKIP() << "an intercommunicator needs two groups";
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &half));
  ASSERT_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank() % 2, 99, &between));
  if (rank() < 2) {
    int in = -1;
    const int out = rank();
    std::array<MPI_Request, 2> requests;
    ASSERT_OK(MPI_Recv_init(&in, 1, MPI_INT, 0, 18, between, requests.data()));
    ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, 0, 18, between, &requests[1]));
    ASSERT_OK(MPIX_Matchall(2, requests.data()));
    exchange(requests);
    EXPECT_EQ(1 - rank(), in);
    free_all(requests);
  }
  ASSERT_OK(MPI_Comm_free(&between));
  ASSERT_OK(MPI_Comm_free(&half));
}

TEST_F(DropinQueue, requests_with_no_process_are_matched_at_once) {
  std::vector<int> in(1, -1);
  const int out = 1;
  std::array requests = {receive(in, 15, MPI_PROC_NULL), MPI_REQUEST_NULL};
  ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, MPI_PROC_NULL, 15, MPI_COMM_WORLD, &requests[1]));
  for (MPI_Request& each : requests) {
    ASSERT_OK(MPIX_Match(&each));
    EXPECT_TRUE(is_matched(each));
  }
  ASSERT_OK(MPI_Startall(2, requests.data()));
  std::array<MPI_Status, 2> statuses{};
  ASSERT_OK(MPI_Waitall(2, requests.data(), statuses.data()));
  EXPECT_EQ(MPI_PROC_NULL, statuses[0].MPI_SOURCE);
  EXPECT_EQ(-1, in[0]);
  free_all(requests);
}

/// Nothing is attached for it: the copies are Partita's.
TEST_F(DropinQueue, a_matched_buffered_send_is_complete_before_its_receive_starts) {
  std::vector<int> in(50), out(50);
  std::array requests = {receive(in, 16), send(out, 16, MPI_Bsend_init)};
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  for (int epoch = 0; epoch < 4; ++epoch) {
    out.assign(50, 10 * rank() + epoch);
    ASSERT_OK(MPI_Start(&requests[1]));
    ASSERT_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  }
  out.assign(50, -1);
  harness_barrier();
  for (int epoch = 0; epoch < 4; ++epoch) {
    ASSERT_OK(MPI_Start(requests.data()));
    ASSERT_OK(MPI_Wait(requests.data(), MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(50, 10 * left() + epoch), in);
  }
  free_all(requests);
}

/// Even ranks have no request of Partita's left while their last messages leave, and wait in a call of the MPI's.
TEST_F(DropinQueue, what_a_freed_buffered_send_has_copied_leaves_during_other_calls) {
  const bool sends = rank() % 2 == 0;
  const int peer = sends ? rank() + 1 : rank() - 1;
  if (peer >= ranks()) GTEST_SKIP() << "has no partner";
  std::vector<int> data(50);
  int word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const auto init = [&] {
    if (!sends) return MPI_Recv_init(data.data(), 50, MPI_INT, peer, 18, MPI_COMM_WORLD, &request);
    return MPI_Bsend_init(data.data(), 50, MPI_INT, peer, 18, MPI_COMM_WORLD, &request);
  };
  ASSERT_OK(init());
  ASSERT_OK(MPIX_Match(&request));
  for (int epoch = 0; epoch < 4; ++epoch) {
    if (sends) data.assign(50, epoch);
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (!sends) {
      EXPECT_EQ(std::vector<int>(50, epoch), data);
    }
  }
  ASSERT_OK(MPI_Request_free(&request));
  if (sends) {
    ASSERT_OK(MPI_Recv(&word, 1, MPI_INT, peer, 19, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else {
    ASSERT_OK(MPI_Send(&word, 1, MPI_INT, peer, 19, MPI_COMM_WORLD));
  }
}

#if MPI_VERSION >= 4
/// The MPI's error handler stays as it is: fatal.
TEST(DropinDatatypes, made_with_large_counts_are_kept_like_others) {
  const int left = (rank() + ranks() - 1) % ranks(), right = (rank() + 1) % ranks();
  MPI_Datatype pairs = MPI_DATATYPE_NULL;
  MPI_Type_contiguous_c(2, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  std::array<int, 4> out{rank(), rank() + 1, rank() + 2, rank() + 3}, in{};
  std::array<MPI_Request, 2> requests{};
  ASSERT_OK(MPI_Send_init(out.data(), 2, pairs, right, 20, MPI_COMM_WORLD, requests.data()));
  ASSERT_OK(MPI_Recv_init(in.data(), 2, pairs, left, 20, MPI_COMM_WORLD, &requests[1]));
  MPI_Type_free(&pairs);
  for (const bool matched : {false, true}) {
    if (matched) {
      ASSERT_OK(MPIX_Matchall(2, requests.data()));
    }
    in.fill(-1);
    ASSERT_OK(MPI_Startall(2, requests.data()));
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ((std::array<int, 4>{left, left + 1, left + 2, left + 3}), in);
  }
  for (MPI_Request& each : requests) ASSERT_OK(MPI_Request_free(&each));
}
#endif

TEST_F(DropinQueue, looks_at_matched_requests_complete_all_of_them_or_none) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::array requests = {receive(in, 17), send(out, 17)};
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  ASSERT_OK(MPI_Start(requests.data()));
  int flag = -1;
  MPI_Status status;
  std::array<MPI_Status, 2> statuses{};
  ASSERT_OK(MPI_Request_get_status(requests[0], &flag, &status));
  EXPECT_EQ(0, flag);
  ASSERT_OK(MPI_Testall(2, requests.data(), &flag, statuses.data()));
  EXPECT_EQ(0, flag);
  harness_barrier();  // nobody has sent before
  ASSERT_OK(MPI_Start(&requests[1]));
  for (flag = 0; flag == 0;) ASSERT_OK(MPI_Request_get_status(requests[0], &flag, &status));
  EXPECT_EQ(left(), status.MPI_SOURCE);
  for (flag = 0; flag == 0;) ASSERT_OK(MPI_Testall(2, requests.data(), &flag, statuses.data()));
  EXPECT_EQ(left(), statuses[0].MPI_SOURCE);
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

TEST_F(DropinQueue, a_queue_takes_matched_and_partitioned_requests_and_collectives) {
  std::vector<int> in(50), in_parts(50), out(50), sum(50);
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, nullptr));
  std::array<MPI_Request, 5> requests{receive(in, 2), send(out, 2)};
  ASSERT_OK(MPI_Precv_init(in_parts.data(), 2, 25, MPI_INT, left(), 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]));
  ASSERT_OK(MPI_Psend_init(out.data(), 5, 10, MPI_INT, right(), 2, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]));
  ASSERT_OK(MPIX_Pallreduce_init(out.data(), sum.data(), 1, 50, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &requests[4]));
  ASSERT_OK(MPIX_Matchall(5, requests.data()));
  for (int epoch = 0; epoch < 3; ++epoch) {
    out.assign(50, rank() + epoch);
    ASSERT_OK(MPIX_Enqueue_start(queue, requests.data()));
    ASSERT_OK(MPIX_Enqueue_startall(queue, 4, &requests[1]));
    ASSERT_OK(MPI_Pready_range(0, 4, requests[3]));
    ASSERT_OK(MPI_Pready(0, requests[4]));
    ASSERT_OK(MPIX_Enqueue_wait(queue, requests.data()));
    ASSERT_OK(MPIX_Enqueue_waitall(queue, 4, &requests[1]));
    EXPECT_EQ(std::vector<int>(50, left() + epoch), in);
    EXPECT_EQ(in, in_parts);
    EXPECT_EQ(ranks() * (ranks() - 1) / 2 + ranks() * epoch, sum[0]);
  }
  ASSERT_OK(MPIX_Queue_wait(queue));
  ASSERT_OK(MPIX_Queue_free(&queue));
  EXPECT_EQ(MPIX_QUEUE_NULL, queue);
  free_all(requests);
}

TEST_F(DropinQueue, imatch_gives_a_request_that_every_completion_call_sets_to_null) {
  for (int how = 0; how < completion_count; ++how) {
    std::vector<int> in(1, -1);
    const std::vector<int> out(1, rank());
    std::array requests = {receive(in, 3), send(out, 3)};
    // Beside one of the MPI's own.
    const int own = rank();
    int none = -1;
    std::vector<MPI_Request> pending(3, MPI_REQUEST_NULL);
    ASSERT_OK(MPIX_Imatchall(2, requests.data(), pending.data()));
    ASSERT_OK(MPI_Irecv(&none, 1, MPI_INT, rank(), 4, MPI_COMM_WORLD, &pending[1]));
    ASSERT_OK(MPI_Isend(&own, 1, MPI_INT, rank(), 4, MPI_COMM_WORLD, &pending[2]));
    EXPECT_ERROR(MPI_Cancel(pending.data()), MPI_ERR_REQUEST, "cancelled");
    std::vector<MPI_Status> statuses;
    complete<StandardFace>(static_cast<Completion>(how), pending, statuses);
    for (const MPI_Request each : pending) EXPECT_EQ(MPI_REQUEST_NULL, each) << name_of(static_cast<Completion>(how));
    EXPECT_EQ(rank(), none);
    exchange(requests);
    EXPECT_EQ(left(), in[0]);
    free_all(requests);
  }
}

TEST_F(DropinQueue, datatypes_are_kept_from_the_init_call_on) {
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  std::vector<int> in(6, -1);
  const std::vector<int> out(3, rank());
  std::array requests = {MPI_REQUEST_NULL, send(out, 5)};
  ASSERT_OK(MPI_Recv_init(in.data(), 1, every_other, left(), 5, MPI_COMM_WORLD, requests.data()));
  MPI_Type_free(&every_other);
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  exchange(requests);
  EXPECT_EQ((std::vector<int>{left(), -1, left(), -1, left(), -1}), in);
  free_all(requests);
}

/// An init call copies no attribute of its datatype, and freeing the request deletes none.
TEST_F(DropinQueue, datatypes_are_kept_without_their_attributes) {
  static int calls = 0;
  int keyval = MPI_KEYVAL_INVALID;
  ASSERT_OK(MPI_Type_create_keyval(
      [](MPI_Datatype, int, void*, void*, void*, int* flag) {
        ++calls;
        *flag = 1;
        return MPI_SUCCESS;
      },
      [](MPI_Datatype, int, void*, void*) {
        ++calls;
        return MPI_SUCCESS;
      },
      &keyval, nullptr));
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
  ASSERT_OK(MPI_Type_commit(&pair));
  ASSERT_OK(MPI_Type_set_attr(pair, keyval, nullptr));
  std::vector<int> in(2);
  const std::vector<int> out(2, rank());
  std::array<MPI_Request, 2> requests;
  for (const bool matched : {false, true}) {
    ASSERT_OK(MPI_Recv_init(in.data(), 1, pair, left(), 11, MPI_COMM_WORLD, requests.data()));
    ASSERT_OK(MPI_Send_init(out.data(), 1, pair, right(), 11, MPI_COMM_WORLD, &requests[1]));
    if (matched) {
      ASSERT_OK(MPIX_Matchall(2, requests.data()));
    }
    exchange(requests);
    EXPECT_EQ(std::vector<int>(2, left()), in);
    free_all(requests);
  }
  EXPECT_EQ(0, calls);
  ASSERT_OK(MPI_Type_delete_attr(pair, keyval));
  ASSERT_OK(MPI_Type_free(&pair));
  ASSERT_OK(MPI_Type_free_keyval(&keyval));
}

/// Each bad request stands behind a good one, which stays the MPI's, and works.
TEST_F(DropinQueue, of_a_group_with_one_that_cannot_be_matched_none_is) {
  std::vector<int> in(1), any(1), started(1);
  const std::vector<int> out(1, rank());
  std::array good = {receive(in, 6), send(out, 6)};
  MPI_Request any_source = receive(any, 6, MPI_ANY_SOURCE), any_tag = receive(any, MPI_ANY_TAG);
  MPI_Request active = receive(started, 7), nonblocking = MPI_REQUEST_NULL, generalized = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Start(&active));
  ASSERT_OK(MPI_Irecv(any.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD, &nonblocking));
  ASSERT_OK(MPI_Grequest_start([](void*, MPI_Status*) { return MPI_SUCCESS; }, [](void*) { return MPI_SUCCESS; },
                               [](void*, int) { return MPI_SUCCESS; }, nullptr, &generalized));
  const auto refuses = [&](MPI_Request bad, int error_class, const char* word) {
    std::array group = {good[0], bad};
    MPI_Request matching = MPI_REQUEST_NULL;
    EXPECT_ERROR(MPIX_Matchall(2, group.data()), error_class, "MPIX_Matchall", word);
    EXPECT_ERROR(MPIX_Imatchall(2, group.data(), &matching), error_class, "MPIX_Imatchall", word);
    EXPECT_ERROR(MPIX_Match(&bad), error_class, "MPIX_Match", word);
    EXPECT_EQ(good[0], group[0]);
    EXPECT_EQ(MPI_REQUEST_NULL, matching);
    EXPECT_FALSE(is_matched(good[0]));
  };
  refuses(any_source, MPI_ERR_RANK, "wildcard");
  refuses(any_tag, MPI_ERR_TAG, "wildcard");
  refuses(active, MPI_ERR_REQUEST, "active");
  refuses(nonblocking, MPI_ERR_REQUEST, "nonblocking");
  refuses(generalized, MPI_ERR_REQUEST, "generalized");
  refuses(MPI_REQUEST_NULL, MPI_ERR_REQUEST, "MPI_REQUEST_NULL");
  int flag = -1;
  for (const MPI_Request never : {nonblocking, generalized}) {
    EXPECT_ERROR(MPIX_Is_matched(never, &flag), MPI_ERR_REQUEST, "MPIX_Is_matched", "generalized");
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    exchange(good);
    EXPECT_EQ(left(), in[0]);
    if (epoch == 0) {
      ASSERT_OK(MPIX_Matchall(2, good.data()));
    }
  }
  free_all(good);
  ASSERT_OK(MPI_Send(out.data(), 1, MPI_INT, right(), 7, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Send(out.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Grequest_complete(generalized));
  ASSERT_OK(MPI_Wait(&generalized, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&nonblocking, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&active, MPI_STATUS_IGNORE));
  std::array others = {any_source, any_tag, active};
  free_all(others);
}

TEST_F(DropinQueue, a_queue_takes_matched_requests_only) {
  std::vector<int> in(1), other(1);
  const std::vector<int> out(1, rank());
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, nullptr));
  std::array good = {receive(in, 9), send(out, 9)};
  ASSERT_OK(MPIX_Matchall(2, good.data()));
  MPI_Request unmatched = receive(other, 9), nonblocking = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(other.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD, &nonblocking));
  const auto refuses = [&](MPI_Request bad, const char* word) {
    std::array group = {good[0], bad};
    EXPECT_ERROR(MPIX_Enqueue_startall(queue, 2, group.data()), MPI_ERR_REQUEST, "MPIX_Enqueue_startall", word);
    EXPECT_ERROR(MPIX_Enqueue_start(queue, &bad), MPI_ERR_REQUEST, "MPIX_Enqueue_start", word);
    EXPECT_ERROR(MPIX_Enqueue_waitall(queue, 2, group.data()), MPI_ERR_REQUEST, "MPIX_Enqueue_waitall", word);
    EXPECT_ERROR(MPIX_Enqueue_wait(queue, &bad), MPI_ERR_REQUEST, "MPIX_Enqueue_wait", word);
  };
  refuses(unmatched, "not matched");
  EXPECT_ERROR(MPI_Pready(0, unmatched), MPI_ERR_REQUEST, "MPI_Pready", "not matched", "no partitions");
  EXPECT_ERROR(MPIX_Pbuf_prepareall(1, &unmatched), MPI_ERR_REQUEST, "MPIX_Pbuf_prepareall", "no partitions");
  refuses(nonblocking, "nonblocking");
  refuses(MPI_REQUEST_NULL, "MPI_REQUEST_NULL");

  ASSERT_OK(MPIX_Enqueue_startall(queue, 2, good.data()));
  EXPECT_ERROR(MPI_Start(good.data()), MPI_ERR_REQUEST, "MPI_Start", "queue");
  EXPECT_ERROR(MPI_Wait(good.data(), MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "MPI_Wait", "queue");
  EXPECT_ERROR(MPI_Request_free(good.data()), MPI_ERR_REQUEST, "MPI_Request_free", "queue");
  EXPECT_ERROR(MPI_Cancel(good.data()), MPI_ERR_REQUEST, "cancelled");
  EXPECT_ERROR(MPIX_Queue_free(&queue), MPI_ERR_REQUEST, "MPIX_Queue_free", "no wait");
  ASSERT_OK(MPIX_Enqueue_waitall(queue, 2, good.data()));
  EXPECT_EQ(left(), in[0]);
  ASSERT_OK(MPI_Send(out.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Wait(&nonblocking, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Request_free(&unmatched));
  ASSERT_OK(MPIX_Queue_free(&queue));
  free_all(good);
}

/// A receive of the MPI's, complete, stands beside the enqueued request.
TEST_F(DropinQueue, a_call_that_an_enqueued_request_refuses_completes_nothing_else) {
  std::vector<int> in(1), of_mpi(1);
  const std::vector<int> out(1, rank());
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, nullptr));
  std::array good = {receive(in, 10), send(out, 10)};
  ASSERT_OK(MPIX_Matchall(2, good.data()));
  std::array<MPI_Request, 2> mixed = {good[1], MPI_REQUEST_NULL};
  ASSERT_OK(MPI_Irecv(of_mpi.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD, &mixed[1]));
  ASSERT_OK(MPI_Send(out.data(), 1, MPI_INT, rank(), 8, MPI_COMM_WORLD));
  for (int complete = 0; complete == 0;) {
    ASSERT_OK(MPI_Request_get_status(mixed[1], &complete, MPI_STATUS_IGNORE));
  }
  const std::array before = mixed;

  ASSERT_OK(MPIX_Enqueue_startall(queue, 2, good.data()));
  int flag = 0, index = 0, done = 0;
  std::array<int, 2> indices{};
  std::array<MPI_Status, 2> statuses{};
  const auto refused = [&](const char* call, int code) {
    EXPECT_ERROR(code, MPI_ERR_REQUEST, call, "queue");
    EXPECT_EQ(before, mixed) << call;
  };
  refused("MPI_Wait", MPI_Wait(mixed.data(), MPI_STATUS_IGNORE));
  refused("MPI_Test", MPI_Test(mixed.data(), &flag, MPI_STATUS_IGNORE));
  refused("MPI_Waitall", MPI_Waitall(2, mixed.data(), statuses.data()));
  refused("MPI_Testall", MPI_Testall(2, mixed.data(), &flag, statuses.data()));
  EXPECT_EQ(0, flag);
  refused("MPI_Waitany", MPI_Waitany(2, mixed.data(), &index, MPI_STATUS_IGNORE));
  refused("MPI_Testany", MPI_Testany(2, mixed.data(), &index, &flag, MPI_STATUS_IGNORE));
  refused("MPI_Waitsome", MPI_Waitsome(2, mixed.data(), &done, indices.data(), statuses.data()));
  refused("MPI_Testsome", MPI_Testsome(2, mixed.data(), &done, indices.data(), statuses.data()));
  ASSERT_OK(MPIX_Enqueue_waitall(queue, 2, good.data()));
  EXPECT_EQ(left(), in[0]);

  ASSERT_OK(MPI_Wait(&mixed[1], statuses.data()));
  EXPECT_EQ(rank(), of_mpi[0]);
  EXPECT_EQ(rank(), statuses[0].MPI_SOURCE);
  ASSERT_OK(MPIX_Queue_free(&queue));
  free_all(good);
}

/// The first allocation of each call is the drop-in's own. Arrays of so many requests have no place on the stack.
TEST_F(DropinQueue, want_of_memory_is_an_error_of_the_call) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, nullptr));
  std::array requests = {receive(in, 12), send(out, 12)};
  const std::array before = requests;
  MPI_Request matching = MPI_REQUEST_NULL;
  const auto refuses = [](const char* name, auto call) {
    harness_barrier();
    fail_allocations_of_this_thread(1);  // the progress thread allocates at its own times
    const int code = call();
    EXPECT_FALSE(end_failing());
    EXPECT_ERROR(code, MPI_ERR_NO_MEM, name, "memory");
  };
  refuses("MPIX_Imatchall", [&] { return MPIX_Imatchall(2, requests.data(), &matching); });
  EXPECT_EQ(before, requests);
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  refuses("MPIX_Enqueue_startall", [&] { return MPIX_Enqueue_startall(queue, 2, requests.data()); });
  refuses("MPIX_Pbuf_prepareall", [&] { return MPIX_Pbuf_prepareall(2, requests.data()); });
  std::vector<MPI_Request> many(300, MPI_REQUEST_NULL);
  std::copy(requests.begin(), requests.end(), many.begin());
  int flag = 0, index = 0, done = 0;
  std::vector<int> indices(many.size());
  const int count = static_cast<int>(many.size());
  refuses("MPI_Startall", [&] { return MPI_Startall(count, many.data()); });
  ASSERT_OK(MPI_Startall(2, requests.data()));
  refuses("MPI_Waitall", [&] { return MPI_Waitall(count, many.data(), MPI_STATUSES_IGNORE); });
  refuses("MPI_Testall", [&] { return MPI_Testall(count, many.data(), &flag, MPI_STATUSES_IGNORE); });
  refuses("MPI_Waitany", [&] { return MPI_Waitany(count, many.data(), &index, MPI_STATUS_IGNORE); });
  refuses("MPI_Testany", [&] { return MPI_Testany(count, many.data(), &index, &flag, MPI_STATUS_IGNORE); });
  refuses("MPI_Waitsome", [&] { return MPI_Waitsome(count, many.data(), &done, indices.data(), MPI_STATUSES_IGNORE); });
  refuses("MPI_Testsome", [&] { return MPI_Testsome(count, many.data(), &done, indices.data(), MPI_STATUSES_IGNORE); });
  ASSERT_OK(MPI_Waitall(count, many.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(left(), in[0]);
  ASSERT_OK(MPIX_Queue_free(&queue));
  free_all(requests);
}

TEST_F(DropinQueue, calls_refuse_wrong_arguments) {
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Request none = MPI_REQUEST_NULL;
  int flag = 0;
  EXPECT_ERROR(MPIX_Queue_init(&queue, MPIX_QUEUE_CUDA, nullptr), MPI_ERR_ARG, "MPIX_Queue_init", "cudaStream_t");
  EXPECT_ERROR(MPIX_Queue_wait(queue), MPI_ERR_ARG, "MPIX_Queue_wait", "queue");
  EXPECT_ERROR(MPIX_Queue_free(nullptr), MPI_ERR_ARG, "MPIX_Queue_free");
  for (const auto call : {MPIX_Matchall, +[](int count, MPI_Request requests[]) {
                            return MPIX_Enqueue_startall(MPIX_QUEUE_NULL, count, requests);
                          }}) {
    EXPECT_ERROR(call(-1, &none), MPI_ERR_COUNT, "count", "-1");
    EXPECT_ERROR(call(1, nullptr), MPI_ERR_ARG, "requests", "null");
  }
  EXPECT_ERROR(MPIX_Match(nullptr), MPI_ERR_REQUEST, "MPIX_Match", "null");
  EXPECT_ERROR(MPIX_Imatch(nullptr, &none), MPI_ERR_REQUEST, "MPIX_Imatch", "null");
  EXPECT_ERROR(MPIX_Imatchall(0, nullptr, nullptr), MPI_ERR_ARG, "MPIX_Imatchall", "matching");
  EXPECT_ERROR(MPIX_Is_matched(none, &flag), MPI_ERR_REQUEST, "MPIX_Is_matched", "MPI_REQUEST_NULL");
  EXPECT_ERROR(MPIX_Enqueue_start(queue, nullptr), MPI_ERR_REQUEST, "MPIX_Enqueue_start", "null");
  EXPECT_ERROR(MPIX_Enqueue_wait(queue, nullptr), MPI_ERR_REQUEST, "MPIX_Enqueue_wait", "null");
}

/// In host memory nothing is a stream's.
TEST_F(DropinQueue, kernels_are_given_the_completion_of_what_streams_move) {
  std::vector<int> in(3, -1);
  const std::vector<int> out(3, rank());
  MPIX_Completion completion{};
  std::array requests = {receive(in, 0), send(out, 0)};
  EXPECT_ERROR(MPIX_Queue_completion(MPI_REQUEST_NULL, &completion), MPI_ERR_REQUEST, "MPIX_Queue_completion",
               "MPI_REQUEST_NULL");
  EXPECT_ERROR(MPIX_Queue_completion(requests[0], &completion), MPI_ERR_REQUEST, "MPIX_Queue_completion", "not matched",
               "MPIX_Match");
  ASSERT_OK(MPIX_Matchall(2, requests.data()));
  EXPECT_ERROR(MPIX_Queue_completion(requests[0], &completion), MPI_ERR_REQUEST, "MPIX_Queue_completion",
               "hosts move it");
  EXPECT_ERROR(MPIX_Queue_completion(requests[0], nullptr), MPI_ERR_ARG, "MPIX_Queue_completion", "completion");
  MPI_Request nobody = receive(in, 1, MPI_PROC_NULL);
  ASSERT_OK(MPIX_Match(&nobody));
  EXPECT_OK(MPIX_Queue_completion(nobody, &completion));
  EXPECT_EQ(PARTITA_PREQUEST_NOBODY, completion.origin);
  ASSERT_OK(MPI_Request_free(&nobody));
  free_all(requests);
}

/// What nobody matches costs the MPI's requests nothing but their records, which go with them.
TEST_F(DropinQueue, requests_that_are_never_matched_stay_the_mpis) {
  for (int round = 0; round < 200; ++round) {
    std::vector<int> in(1, -1);
    const std::vector<int> out(1, round);
    std::array requests = {receive(in, MPI_ANY_TAG, MPI_ANY_SOURCE), send(out, round)};
    exchange(requests);
    EXPECT_EQ(round, in[0]);
    harness_barrier();  // the receive takes from anybody
    free_all(requests);
  }
}

}  // namespace
}  // namespace partita::test
