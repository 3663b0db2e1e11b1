// Ordinary persistent requests of the C API, and the calls that match requests for good.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "support/completion.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/persistent_ring.hpp"

namespace partita::test {
namespace {

enum class Mode { standard, ready, synchronous, buffered };

class Persistent : public PersistentRing {
 protected:
  static int send_init(Mode mode, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                       Partita_Request* request) {
    switch (mode) {
      case Mode::standard:
        return Partita_Send_init(buf, count, datatype, dest, tag, MPI_COMM_WORLD, request);
      case Mode::ready:
        return Partita_Rsend_init(buf, count, datatype, dest, tag, MPI_COMM_WORLD, request);
      case Mode::synchronous:
        return Partita_Ssend_init(buf, count, datatype, dest, tag, MPI_COMM_WORLD, request);
      case Mode::buffered:
        return Partita_Bsend_init(buf, count, datatype, dest, tag, MPI_COMM_WORLD, request);
    }
    return MPI_ERR_INTERN;
  }
  static Partita_Request send(const std::vector<int>& data, int tag, Mode mode = Mode::standard) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(send_init(mode, data.data(), static_cast<MPI_Count>(data.size()), MPI_INT, right(), tag, &made));
    return made;
  }
  static bool is_matched(Partita_Request request) {
    int flag = -1;
    EXPECT_OK(Partita_Is_matched(request, &flag));
    return flag == 1;
  }
  static std::string info_of(Partita_Request request, const char* key) {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_OK(Partita_Request_get_info(request, &info));
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found = 0;
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&info);
    return found != 0 ? value : "none";
  }
  template <class Requests>
  static void free_all(Requests& requests) {
    for (Partita_Request& each : requests) ASSERT_OK(Partita_Request_free(&each));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_F(Persistent, messages_of_every_mode_and_size_arrive_in_every_epoch) {
  for (const Mode mode : {Mode::standard, Mode::ready, Mode::synchronous, Mode::buffered}) {
    for (const std::size_t count : {0, 1, 100, 5'000, 100'000}) {
      std::vector<int> in(count), out(count);
      std::array requests = {receive(in, 3), send(out, 3, mode)};
      ASSERT_OK(Partita_Matchall(2, requests.data()));
      EXPECT_TRUE(is_matched(requests[0]) && is_matched(requests[1]));
      for (int epoch = 0; epoch < 4; ++epoch) {
        in.assign(count, -1);
        std::iota(out.begin(), out.end(), 1'000 * rank() + epoch);
        ASSERT_OK(Partita_Start(requests.data()));
        if (mode == Mode::ready) harness_barrier();
        ASSERT_OK(Partita_Start(&requests[1]));
        std::array<MPI_Status, 2> statuses{};
        ASSERT_OK(Partita_Waitall(2, requests.data(), statuses.data()));
        std::vector<int> expected(count);
        std::iota(expected.begin(), expected.end(), 1'000 * left() + epoch);
        ASSERT_EQ(expected, in) << count << " numbers, epoch " << epoch;
        int received = -1;
        MPI_Get_count(statuses.data(), MPI_INT, &received);
        EXPECT_EQ(static_cast<int>(count), received);
        EXPECT_EQ(left(), statuses[0].MPI_SOURCE);
        EXPECT_EQ(3, statuses[0].MPI_TAG);
      }
      free_all(requests);
    }
  }
}

/// The order of init calls and that of Match differ, on one side only.
TEST_F(Persistent, requests_meet_in_the_order_in_which_they_are_matched) {
  std::vector<int> in_first(1, -1), in_second(1, -1);
  const std::vector<int> first(1, 100 + rank()), second(1, 200 + rank());
  const Partita_Request made_first = send(second, 4);
  std::array requests = {send(first, 4), made_first, receive(in_first, 4), receive(in_second, 4)};
  ASSERT_OK(Partita_Matchall(4, requests.data()));
  ASSERT_OK(Partita_Startall(4, requests.data()));
  ASSERT_OK(Partita_Waitall(4, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(100 + left(), in_first[0]);
  EXPECT_EQ(200 + left(), in_second[0]);
  free_all(requests);
}

/// One rank makes the partitioned pair first, the others last.
TEST_F(Persistent, requests_never_meet_partitioned_ones) {
  std::vector<int> in(2, -1), in_parts(2, -1);
  const std::vector<int> out(2, rank()), out_parts(2, 50 + rank());
  std::array<Partita_Request, 2> parts{}, whole{};
  for (const bool partitioned : {rank() == 0, rank() != 0}) {
    if (partitioned) {
      ASSERT_OK(
          Partita_Precv_init(in_parts.data(), 2, 1, MPI_INT, left(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[0]));
      ASSERT_OK(
          Partita_Psend_init(out_parts.data(), 2, 1, MPI_INT, right(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &parts[1]));
    } else {
      whole = {receive(in, 5), send(out, 5)};
    }
  }
  ASSERT_OK(Partita_Matchall(2, whole.data()));
  ASSERT_OK(Partita_Matchall(2, parts.data()));
  ASSERT_OK(Partita_Startall(2, whole.data()));
  ASSERT_OK(Partita_Startall(2, parts.data()));
  ASSERT_OK(Partita_Pready_range(0, 1, parts[1]));
  ASSERT_OK(Partita_Waitall(2, whole.data(), MPI_STATUSES_IGNORE));
  ASSERT_OK(Partita_Waitall(2, parts.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(std::vector<int>(2, left()), in);
  EXPECT_EQ(std::vector<int>(2, 50 + left()), in_parts);
  free_all(whole);
  free_all(parts);
}

TEST_F(Persistent, a_message_may_be_shorter_than_its_receive) {
  std::vector<int> in(10, -1);
  const std::vector<int> out(4, rank());
  std::array requests = {receive(in, 6), send(out, 6)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  for (int epoch = 0; epoch < 3; ++epoch) {
    in.assign(10, -1);
    ASSERT_OK(Partita_Startall(2, requests.data()));
    MPI_Status status{};
    ASSERT_OK(Partita_Wait(requests.data(), &status));
    ASSERT_OK(Partita_Wait(&requests[1], MPI_STATUS_IGNORE));
    int received = 0;
    MPI_Get_count(&status, MPI_INT, &received);
    EXPECT_EQ(4, received);
    EXPECT_EQ(left(), in[3]);
    EXPECT_EQ(-1, in[4]);
  }
  free_all(requests);
}

/// Every element takes the first two of three numbers; the message ends within the second one. The datatype is gone by
/// then.
TEST_F(Persistent, a_shorter_message_may_end_within_an_element_of_a_datatype_with_gaps) {
  MPI_Datatype two = MPI_DATATYPE_NULL, element = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_create_resized(two, 0, 3 * sizeof(int), &element);
  MPI_Type_commit(&element);
  std::vector<int> in(12, -1);
  const std::vector<int> out = {rank(), 11, 12};
  std::array requests = {PARTITA_REQUEST_NULL, send(out, 7)};
  ASSERT_OK(Partita_Recv_init(in.data(), 4, element, left(), 7, MPI_COMM_WORLD, requests.data()));
  MPI_Type_free(&element);
  MPI_Type_free(&two);
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  ASSERT_OK(Partita_Startall(2, requests.data()));
  ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ((std::vector<int>{left(), 11, -1, 12, -1, -1, -1, -1, -1, -1, -1, -1}), in);
  free_all(requests);
}

TEST_F(Persistent, a_message_that_is_too_long_fails_at_both_ends_of_the_match) {
  std::vector<int> in(4);
  const std::vector<int> out(10);
  std::array requests = {receive(in, 8), send(out, 8)};
  std::array<Partita_Request, 2> matching{};
  ASSERT_OK(Partita_Imatch(requests.data(), matching.data()));
  ASSERT_OK(Partita_Imatch(&requests[1], &matching[1]));
  EXPECT_ERROR(Partita_Wait(matching.data(), MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "40 bytes", "16");
  EXPECT_ERROR(Partita_Wait(&matching[1], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "40 bytes", "16");
  EXPECT_ERROR(Partita_Start(&requests[1]), MPI_ERR_TRUNCATE, "40 bytes");
  free_all(matching);
  free_all(requests);
}

TEST_F(Persistent, a_synchronous_send_waits_for_the_start_of_its_receive) {
  std::vector<int> in(8), out(8);
  std::array requests = {receive(in, 9), send(out, 9, Mode::synchronous)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_OK(Partita_Start(&requests[1]));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < end) {
      int flag = -1;
      ASSERT_OK(Partita_Test(&requests[1], &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(0, flag) << "no receive has started epoch " << epoch;
    }
    harness_barrier();
    ASSERT_OK(Partita_Start(requests.data()));
    ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  }
  free_all(requests);
}

/// Every epoch is complete before the receive has started any, and the buffer is written again.
TEST_F(Persistent, a_buffered_send_is_as_far_ahead_as_it_likes) {
  constexpr int epochs = 20;
  for (const std::size_t count : {0, 3, 30'000}) {
    std::vector<int> in(count), out(count);
    std::array requests = {receive(in, 9), send(out, 9, Mode::buffered)};
    ASSERT_OK(Partita_Matchall(2, requests.data()));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      std::iota(out.begin(), out.end(), 1'000 * rank() + epoch);
      ASSERT_OK(Partita_Start(&requests[1]));
      ASSERT_OK(Partita_Wait(&requests[1], MPI_STATUS_IGNORE));
    }
    std::fill(out.begin(), out.end(), -1);
    harness_barrier();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      ASSERT_OK(Partita_Start(requests.data()));
      ASSERT_OK(Partita_Wait(requests.data(), MPI_STATUS_IGNORE));
      std::vector<int> expected(count);
      std::iota(expected.begin(), expected.end(), 1'000 * left() + epoch);
      ASSERT_EQ(expected, in) << count << " numbers, epoch " << epoch;
    }
    free_all(requests);
  }
}

/// The copies go on behind the free, while the sender does nothing but wait for its own receive.
TEST_F(Persistent, what_a_buffered_send_has_copied_outlives_it) {
  constexpr int epochs = 5;
  std::vector<int> in(2'000), out(2'000);
  std::array requests = {receive(in, 9), send(out, 9, Mode::buffered)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::fill(out.begin(), out.end(), 100 * rank() + epoch);
    ASSERT_OK(Partita_Start(&requests[1]));
    EXPECT_ERROR(Partita_Start(&requests[1]), MPI_ERR_REQUEST, "active already");
    EXPECT_EQ("true", info_of(requests[1], "partita_active"));
    ASSERT_OK(Partita_Wait(&requests[1], MPI_STATUS_IGNORE));
    EXPECT_EQ("false", info_of(requests[1], "partita_active")) << "whatever still has to leave";
  }
  ASSERT_OK(Partita_Request_free(&requests[1]));
  out.assign(out.size(), -1);
  harness_barrier();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ASSERT_OK(Partita_Start(requests.data()));
    ASSERT_OK(Partita_Wait(requests.data(), MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(2'000, 100 * left() + epoch), in);
  }
  ASSERT_OK(Partita_Request_free(requests.data()));
}

TEST_F(Persistent, what_a_buffered_send_has_copied_goes_with_its_receive) {
  std::vector<int> in(10), out(10);
  std::array requests = {receive(in, 9), send(out, 9, Mode::buffered)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_OK(Partita_Start(&requests[1]));
    ASSERT_OK(Partita_Wait(&requests[1], MPI_STATUS_IGNORE));
  }
  ASSERT_OK(Partita_Request_free(&requests[1]));
  harness_barrier();
  ASSERT_OK(Partita_Request_free(requests.data()));
}

TEST_F(Persistent, a_buffered_send_hears_that_its_receive_was_freed) {
  std::vector<int> in(1), out(1);
  std::array requests = {receive(in, 9), send(out, 9, Mode::buffered)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  ASSERT_OK(Partita_Request_free(requests.data()));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int code = MPI_SUCCESS;
  while (code == MPI_SUCCESS && std::chrono::steady_clock::now() < give_up) {
    code = Partita_Start(&requests[1]);
    if (code == MPI_SUCCESS) code = Partita_Wait(&requests[1], MPI_STATUS_IGNORE);
  }
  EXPECT_ERROR(code, MPI_ERR_REQUEST, "has freed its request");
  ASSERT_OK(Partita_Request_free(&requests[1]));
}

TEST_F(Persistent, requests_of_nobody_are_matched_and_complete_at_once) {
  int value = 7;
  std::array<Partita_Request, 3> requests{};
  ASSERT_OK(Partita_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, requests.data()));
  ASSERT_OK(Partita_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(Partita_Bsend_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]));
  ASSERT_OK(Partita_Match(requests.data()));
  ASSERT_OK(Partita_Matchall(2, &requests[1]));
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_OK(Partita_Startall(3, requests.data()));
    MPI_Status status{};
    ASSERT_OK(Partita_Wait(&requests[1], &status));
    EXPECT_EQ(MPI_PROC_NULL, status.MPI_SOURCE);
    ASSERT_OK(Partita_Wait(requests.data(), MPI_STATUS_IGNORE));
    ASSERT_OK(Partita_Wait(&requests[2], MPI_STATUS_IGNORE));
  }
  EXPECT_EQ(7, value);
  free_all(requests);
}

TEST_F(Persistent, init_refuses_wrong_arguments) {
  int value = 0;
  Partita_Request none = PARTITA_REQUEST_NULL;
  for (const Mode mode : {Mode::standard, Mode::ready, Mode::synchronous, Mode::buffered}) {
    EXPECT_ERROR(send_init(mode, &value, -1, MPI_INT, 0, 1, &none), MPI_ERR_COUNT, "_init", "count", "-1");
    EXPECT_ERROR(send_init(mode, &value, 1, MPI_INT, ranks(), 1, &none), MPI_ERR_RANK, "rank");
    EXPECT_ERROR(send_init(mode, &value, 1, MPI_INT, 0, -5, &none), MPI_ERR_TAG, "tag", "-5");
    EXPECT_ERROR(send_init(mode, &value, 1, MPI_DATATYPE_NULL, 0, 1, &none), MPI_ERR_TYPE, "datatype");
    EXPECT_ERROR(send_init(mode, nullptr, 1, MPI_INT, 0, 1, &none), MPI_ERR_BUFFER, "buf");
    EXPECT_ERROR(send_init(mode, &value, 1, MPI_INT, 0, 1, nullptr), MPI_ERR_ARG, "request");
  }
  EXPECT_ERROR(Partita_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &none), MPI_ERR_RANK,
               "Recv_init", "no wildcard");
  EXPECT_ERROR(Partita_Recv_init(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &none), MPI_ERR_TAG,
               "no wildcard");
  EXPECT_ERROR(Partita_Recv_init(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL, &none), MPI_ERR_COMM, "MPI_COMM_NULL");
  EXPECT_EQ(PARTITA_REQUEST_NULL, none);
}

TEST_F(Persistent, an_unmatched_request_does_not_start_and_can_be_freed) {
  std::vector<int> in(1), out(1);
  std::array requests = {receive(in, 10), send(out, 10)};
  for (Partita_Request& each : requests) {
    EXPECT_FALSE(is_matched(each));
    EXPECT_ERROR(Partita_Start(&each), MPI_ERR_REQUEST, "not matched", "Match");
    int flag = 0;
    EXPECT_OK(Partita_Test(&each, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(1, flag);
    EXPECT_EQ("false", info_of(each, "partita_matched"));
    EXPECT_EQ("host", info_of(each, "partita_memory"));
    EXPECT_ERROR(Partita_Pbuf_prepare(each), MPI_ERR_REQUEST, "Nobody has called Match");
  }
  free_all(requests);
  // What was freed has taken no place in the order.
  const std::vector<int> sent(1, rank());
  requests = {receive(in, 10), send(sent, 10)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  ASSERT_OK(Partita_Startall(2, requests.data()));
  ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

TEST_F(Persistent, requests_have_no_partitions) {
  std::vector<int> in(1), out(1);
  std::array requests = {receive(in, 11), send(out, 11)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  ASSERT_OK(Partita_Startall(2, requests.data()));
  int flag = 0;
  Partita_Prequest prequest{};
  EXPECT_ERROR(Partita_Pready(0, requests[1]), MPI_ERR_REQUEST, "no partitions", "persistent_send");
  EXPECT_ERROR(Partita_Pready(0, requests[0]), MPI_ERR_REQUEST, "no partitions", "persistent_recv");
  EXPECT_ERROR(Partita_Parrived(requests[0], 0, &flag), MPI_ERR_REQUEST, "no partitions");
  EXPECT_ERROR(Partita_Prequest_create(&prequest, requests[0]), MPI_ERR_REQUEST, "kernels");
  EXPECT_OK(Partita_Pbuf_prepareall(2, requests.data()));
  ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ("persistent_recv", info_of(requests[0], "partita_kind"));
  free_all(requests);
}

TEST_F(Persistent, match_refuses_active_and_null_requests_and_begins_nothing_then) {
  std::vector<int> in(1), out(1), other(1);
  std::array requests = {receive(in, 12), send(out, 12)};
  EXPECT_ERROR(Partita_Match(nullptr), MPI_ERR_REQUEST, "Match", "null");
  EXPECT_ERROR(Partita_Matchall(-1, requests.data()), MPI_ERR_COUNT, "count", "-1");
  EXPECT_ERROR(Partita_Matchall(1, nullptr), MPI_ERR_ARG, "requests");
  EXPECT_OK(Partita_Matchall(0, nullptr));
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  EXPECT_OK(Partita_Matchall(2, requests.data()));  // again changes nothing
  EXPECT_OK(Partita_Match(requests.data()));

  ASSERT_OK(Partita_Startall(2, requests.data()));
  Partita_Request unmatched = send(other, 12), none = PARTITA_REQUEST_NULL, matching = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Match(&requests[1]), MPI_ERR_REQUEST, "active");
  for (const Partita_Request bad : {requests[0], none}) {
    std::array group = {unmatched, bad};
    EXPECT_ERROR(Partita_Matchall(2, group.data()), MPI_ERR_REQUEST);
    EXPECT_ERROR(Partita_Imatchall(2, group.data(), &matching), MPI_ERR_REQUEST);
    EXPECT_EQ(PARTITA_REQUEST_NULL, matching);
  }
  EXPECT_ERROR(Partita_Imatch(&unmatched, nullptr), MPI_ERR_ARG, "matching");
  EXPECT_ERROR(Partita_Is_matched(unmatched, nullptr), MPI_ERR_ARG, "flag");
  EXPECT_ERROR(Partita_Is_matched(none, nullptr), MPI_ERR_ARG, "flag");
  ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  ASSERT_OK(Partita_Request_free(&unmatched));
  free_all(requests);

  // Nobody looks for a peer of the request that was freed: it has no place in the order.
  const std::vector<int> sent(1, rank());
  requests = {receive(in, 12), send(sent, 12)};
  ASSERT_OK(Partita_Matchall(2, requests.data()));
  ASSERT_OK(Partita_Startall(2, requests.data()));
  ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(left(), in[0]);
  free_all(requests);
}

TEST_F(Persistent, imatch_gives_a_request_that_every_completion_call_completes_and_frees) {
  for (int how = 0; how < completion_count; ++how) {
    std::vector<int> in(1, -1);
    const std::vector<int> out(1, rank());
    std::array requests = {receive(in, 13), send(out, 13)};
    std::vector<Partita_Request> matching(2, PARTITA_REQUEST_NULL);
    ASSERT_OK(Partita_Imatch(requests.data(), matching.data()));
    EXPECT_ERROR(Partita_Start(matching.data()), MPI_ERR_REQUEST, "Imatch", "persistent");
    EXPECT_ERROR(Partita_Match(matching.data()), MPI_ERR_REQUEST, "Imatch", "persistent");
    EXPECT_ERROR(Partita_Pbuf_prepare(matching[0]), MPI_ERR_REQUEST, "Imatch", "persistent");
    int flag = 0;
    EXPECT_ERROR(Partita_Is_matched(matching[0], &flag), MPI_ERR_REQUEST, "Imatch", "persistent");
    EXPECT_ERROR(Partita_Request_free(requests.data()), MPI_ERR_REQUEST, "Imatch");
    harness_barrier();  // nobody has begun to match a send
    EXPECT_FALSE(is_matched(requests[0]));
    EXPECT_ERROR(Partita_Request_free(matching.data()), MPI_ERR_REQUEST, "not complete");
    EXPECT_ERROR(Partita_Start(requests.data()), MPI_ERR_REQUEST, "not matched");
    harness_barrier();
    ASSERT_OK(Partita_Imatch(&requests[1], &matching[1]));
    std::vector<MPI_Status> statuses;
    complete<CFace>(static_cast<Completion>(how), matching, statuses);
    EXPECT_EQ(PARTITA_REQUEST_NULL, matching[0]);
    EXPECT_EQ(PARTITA_REQUEST_NULL, matching[1]);
    EXPECT_TRUE(is_matched(requests[0]) && is_matched(requests[1]));
    ASSERT_OK(Partita_Startall(2, requests.data()));
    ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(left(), in[0]);
    free_all(requests);
  }
}

TEST_F(Persistent, imatchall_gives_one_request_for_all_and_is_matched_leaves_it_to_be_completed) {
  std::vector<int> in(3, -1), out(3);
  std::vector<Partita_Request> requests;
  for (int i = 0; i < 3; ++i) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    ASSERT_OK(Partita_Recv_init(&in[static_cast<std::size_t>(i)], 1, MPI_INT, left(), i, MPI_COMM_WORLD, &made));
    requests.push_back(made);
    ASSERT_OK(Partita_Send_init(&out[static_cast<std::size_t>(i)], 1, MPI_INT, right(), i, MPI_COMM_WORLD, &made));
    requests.push_back(made);
  }
  Partita_Request matching = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Imatchall(6, requests.data(), &matching));
  step("Is_matched");
  for (const Partita_Request each : requests) {
    while (!is_matched(each) && !HasFailure()) yield_unless(0);
  }
  ASSERT_NE(PARTITA_REQUEST_NULL, matching);
  ASSERT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  EXPECT_EQ(PARTITA_REQUEST_NULL, matching);
  ASSERT_OK(Partita_Imatchall(0, nullptr, &matching));
  ASSERT_NE(PARTITA_REQUEST_NULL, matching);
  ASSERT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  EXPECT_EQ(PARTITA_REQUEST_NULL, matching);
  free_all(requests);
}

TEST_F(Persistent, partitioned_requests_and_collectives_are_matched_too) {
  std::vector<int> in(2, -1), sum(2, -1);
  const std::vector<int> out(2, rank());
  std::array<Partita_Request, 3> requests{};
  ASSERT_OK(Partita_Precv_init(in.data(), 2, 1, MPI_INT, left(), 14, MPI_COMM_WORLD, MPI_INFO_NULL, requests.data()));
  ASSERT_OK(Partita_Psend_init(out.data(), 1, 2, MPI_INT, right(), 14, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(Partita_Pallreduce_init(out.data(), sum.data(), 2, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &requests[2]));
  ASSERT_OK(Partita_Matchall(3, requests.data()));
  for (const Partita_Request each : requests) EXPECT_TRUE(is_matched(each));
  ASSERT_OK(Partita_Startall(3, requests.data()));
  ASSERT_OK(Partita_Pready(0, requests[1]));
  ASSERT_OK(Partita_Pready_range(0, 1, requests[2]));
  ASSERT_OK(Partita_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(std::vector<int>(2, left()), in);
  EXPECT_EQ(ranks() * (ranks() - 1) / 2, sum[1]);
  free_all(requests);
}

/// The other cases leave this one to an entry with a short time limit.
class PersistentTimeout : public Persistent {};

TEST_F(PersistentTimeout, a_match_that_nobody_answers_ends_and_says_for_whom_it_waited) {
  std::vector<int> in(1);
  Partita_Request request = receive(in, 15);
  Partita_Request matching = PARTITA_REQUEST_NULL;
  const std::string peer = "rank " + std::to_string(left());
  EXPECT_ERROR(Partita_Match(&request), MPI_ERR_OTHER, peer, "not matched yet", "has not asked to match");
  ASSERT_OK(Partita_Imatch(&request, &matching));
  EXPECT_ERROR(Partita_Wait(&matching, MPI_STATUS_IGNORE), MPI_ERR_OTHER, peer, "not matched yet");
  ASSERT_OK(Partita_Request_free(&matching));
  ASSERT_OK(Partita_Request_free(&request));
}

}  // namespace
}  // namespace partita::test
