// Probes of messages that are offers (PARTITA_PEER_MESSAGES=1000), which see the lengths of the messages, and in the
// order in which these were sent.
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "contract/gpu_aware_job.hpp"
#include "support/errors.hpp"
#include "support/placed_ints.hpp"
#include "support/received_ints.hpp"

namespace partita::test {
namespace {

/// Looks until something has come.
MPI_Status iprobe(int source, int tag) {
  MPI_Status status{};
  for (int found = 0; found == 0;) EXPECT_OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &status));
  return status;
}

class OfferedProbes : public testing::TestWithParam<Memory> {
 protected:
  PlacedInts out{Memory::gpu, counting(many, 100 * rank())};
  PlacedInts in{GetParam(), Ints(many, -1)};
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Status status{};

  void begin_send(int tag, int count = many) {
    ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, right(), tag, MPI_COMM_WORLD, &send));
  }
  void end() {
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT_EQ(in.get(), counting(many, 100 * left()));
    harness_barrier();
  }
};

TEST_P(OfferedProbes, see_the_length_again_and_again) {
  begin_send(1);
  ASSERT_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  expect_from(status, left(), 1, many);
  expect_from(iprobe(left(), 1), left(), 1, many);
  ASSERT_OK(MPI_Recv(in.data(), many, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
  expect_from(status, left(), 1, many);
  end();
}

TEST_P(OfferedProbes, are_met_by_every_kind_of_receive) {
  begin_send(2);
  iprobe(left(), 2);
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data(), many, MPI_INT, left(), MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Wait(&receive, &status));
  expect_from(status, left(), 2, many);
  end();

  ASSERT_OK(MPI_Recv_init(in.data(), many, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &receive));
  for (const bool probed : {true, false, true}) {
    in.set(Ints(many, -1));
    begin_send(2);
    if (probed) iprobe(left(), 2);
    ASSERT_OK(MPI_Start(&receive));
    ASSERT_OK(MPI_Wait(&receive, &status));
    expect_from(status, left(), 2, many);
    end();
  }
  ASSERT_OK(MPI_Request_free(&receive));

  in.set(Ints(many, -1));
  begin_send(2);
  iprobe(left(), 2);
  PlacedInts small(Memory::host, {rank()});
  ASSERT_OK(
      MPI_Sendrecv(small.data(), 1, MPI_INT, right(), 3, in.data(), many, MPI_INT, left(), 2, MPI_COMM_WORLD, &status));
  expect_from(status, left(), 2, many);
  ASSERT_OK(MPI_Recv(small.data(), 1, MPI_INT, left(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  end();
}

TEST_P(OfferedProbes, give_handles_that_receive) {
  MPI_Message message = MPI_MESSAGE_NULL;
  begin_send(4);
  ASSERT_OK(MPI_Mprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &message, &status));
  expect_from(status, left(), 4, many);
  ASSERT_OK(MPI_Mrecv(in.data(), many, MPI_INT, &message, &status));
  EXPECT_EQ(message, MPI_MESSAGE_NULL);
  expect_from(status, left(), 4, many);
  end();

  in.set(Ints(many, -1));
  begin_send(5);
  expect_from(iprobe(MPI_ANY_SOURCE, 5), left(), 5, many);
  int found = 0;
  ASSERT_OK(MPI_Improbe(left(), 5, MPI_COMM_WORLD, &found, &message, &status));
  ASSERT_EQ(found, 1);
  ASSERT_OK(MPI_Iprobe(left(), 5, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
  EXPECT_EQ(found, 0) << "it is the handle's alone";
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Imrecv(in.data(), many, MPI_INT, &message, &receive));
  ASSERT_OK(MPI_Wait(&receive, &status));
  expect_from(status, left(), 5, many);
  end();
}

TEST_P(OfferedProbes, of_synchronous_sends_do_not_complete_them) {
  ASSERT_OK(MPI_Issend(out.data(), many, MPI_INT, right(), 6, MPI_COMM_WORLD, &send));
  iprobe(left(), 6);
  harness_barrier();
  int done = 0;
  for (int look = 0; look < 1000; ++look) ASSERT_OK(MPI_Test(&send, &done, MPI_STATUS_IGNORE));
  EXPECT_EQ(done, 0);
  harness_barrier();
  ASSERT_OK(MPI_Recv(in.data(), many, MPI_INT, left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  end();
}

INSTANTIATE_TEST_SUITE_P(All, OfferedProbes, testing::Values(Memory::gpu, Memory::host),
                         [](const auto& info) { return info.param == Memory::gpu ? "to_gpu" : "to_host"; });

/// What came in front of a message that a probe has taken is found in front of it.
TEST(OfferedOrder, is_kept_behind_a_probe_for_a_later_one) {
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  PlacedInts in(Memory::gpu, Ints(many, -1));
  PlacedInts small(Memory::host, {rank()});
  PlacedInts small_in(Memory::host, {-1});
  std::vector<MPI_Request> sends(4);
  ASSERT_OK(MPI_Isend(small.data(), 1, MPI_INT, right(), 1, MPI_COMM_WORLD, &sends[0]));
  ASSERT_OK(MPI_Isend(out.data(), many - 1, MPI_INT, right(), 2, MPI_COMM_WORLD, &sends[1]));
  ASSERT_OK(MPI_Isend(out.data(), many - 2, MPI_INT, right(), 3, MPI_COMM_WORLD, &sends[2]));
  ASSERT_OK(MPI_Isend(small.data(), 1, MPI_INT, right(), 4, MPI_COMM_WORLD, &sends[3]));
  expect_from(iprobe(left(), 3), left(), 3, many - 2);
  MPI_Status status;
  const std::vector<int> counts{1, many - 1, many - 2, 1};
  for (int message = 0; message < 4; ++message) {
    const int count = counts[static_cast<std::size_t>(message)];
    if (message % 2 == 1) expect_from(iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG), left(), message + 1, count);
    PlacedInts& to = count == 1 ? small_in : in;
    ASSERT_OK(MPI_Recv(to.data(), count, MPI_INT, left(), MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    expect_from(status, left(), message + 1, count);
  }
  ASSERT_OK(MPI_Waitall(4, sends.data(), MPI_STATUSES_IGNORE));
}

TEST(OfferedOrder, of_what_stands_in_front_holds_for_handles) {
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  PlacedInts in(Memory::gpu, Ints(many, -1));
  PlacedInts small(Memory::host, {rank()});
  PlacedInts small_in(Memory::host, {-1});
  MPI_Request sends[2];
  ASSERT_OK(MPI_Isend(small.data(), 1, MPI_INT, right(), 1, MPI_COMM_WORLD, &sends[0]));
  ASSERT_OK(MPI_Isend(out.data(), many, MPI_INT, right(), 2, MPI_COMM_WORLD, &sends[1]));
  iprobe(left(), 2);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  ASSERT_OK(MPI_Mprobe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
  expect_from(status, left(), 1, 1);
  ASSERT_OK(MPI_Mrecv(small_in.data(), 1, MPI_INT, &message, &status));
  EXPECT_EQ(small_in.get(), Ints{left()});
  ASSERT_OK(MPI_Recv(in.data(), many, MPI_INT, left(), MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  expect_from(status, left(), 2, many);
  ASSERT_OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
}

/// A program's message that is as long as an offer.
TEST(OfferedLength, is_no_sign_of_an_offer) {
  const std::vector<char> out(offer_bytes, static_cast<char>('a' + rank()));
  std::vector<char> in(offer_bytes);
  const std::vector<char> expected(offer_bytes, static_cast<char>('a' + left()));
  for (const int way : {0, 1, 2, 3}) {
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int count = 0;
    in.assign(offer_bytes, ' ');
    ASSERT_OK(MPI_Isend(out.data(), offer_bytes, MPI_CHAR, right(), 1, MPI_COMM_WORLD, &send));
    if (way == 1) iprobe(left(), 1);
    if (way == 2) {
      ASSERT_OK(MPI_Mprobe(left(), 1, MPI_COMM_WORLD, &message, &status));
    }
    if (way == 3) {
      PlacedInts on_gpu(Memory::gpu, Ints(100, -1));
      iprobe(left(), 1);
      ASSERT_OK(MPI_Recv(on_gpu.data(), offer_bytes, MPI_CHAR, left(), 1, MPI_COMM_WORLD, &status));
      gpu_copy(in.data(), on_gpu.data(), offer_bytes);
    } else if (way == 2) {
      ASSERT_OK(MPI_Mrecv(in.data(), offer_bytes, MPI_CHAR, &message, &status));
    } else {
      ASSERT_OK(MPI_Recv(in.data(), offer_bytes, MPI_CHAR, left(), 1, MPI_COMM_WORLD, &status));
    }
    ASSERT_OK(MPI_Get_count(&status, MPI_CHAR, &count));
    EXPECT_EQ(count, offer_bytes);
    EXPECT_EQ(in, expected);
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

TEST(OfferedLength, of_messages_of_nobody_is_nothing) {
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  int found = 0;
  ASSERT_OK(MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
  expect_from(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  ASSERT_OK(MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &found, &message, &status));
  EXPECT_EQ(found, 1);
  int unused = 7;
  ASSERT_OK(MPI_Mrecv(&unused, 1, MPI_INT, &message, &status));
  expect_from(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  EXPECT_EQ(unused, 7);
  ASSERT_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
  EXPECT_EQ(found, 0);
}

TEST(OfferedMistakes, of_receives_behind_a_probe_are_told_to_the_communicators_handler) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts out(Memory::gpu, counting(many, 0));
  PlacedInts in(Memory::gpu, Ints(many, -1));
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Message message = MPI_MESSAGE_NULL;
  for (const bool by_handle : {false, true}) {
    ASSERT_OK(MPI_Isend(out.data(), many, MPI_INT, right(), 1, MPI_COMM_WORLD, &send));
    iprobe(left(), 1);
    if (by_handle) {
      ASSERT_OK(MPI_Mprobe(left(), 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
      EXPECT_ERROR(MPI_Mrecv(in.data(), 10, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "MPI_Mrecv",
                   "80000 bytes", "room for 40");
    } else {
      EXPECT_ERROR(MPI_Recv(in.data(), 10, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE,
                   "MPI_Recv", "80000 bytes", "room for 40");
    }
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  }
}

/// A thread probes, and others receive what it has not.
TEST(OfferedThreads, share_messages_with_a_thread_that_probes) {
  constexpr int messages = 200;
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  std::atomic<int> received{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      PlacedInts in(Memory::gpu, Ints(many, -1));
      while (received.fetch_add(1) < messages) {
        MPI_Recv(in.data(), many, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in.get() != counting(many, 100 * left())) ++wrong;
      }
    });
  }
  std::atomic<bool> ended{false};
  threads.emplace_back([&] {
    while (!ended) {
      int found = 0;
      MPI_Status status;
      MPI_Iprobe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
      if (found != 0 && count_of(status) != many) ++wrong;
    }
  });
  for (int message = 0; message < messages; ++message)
    ASSERT_OK(MPI_Send(out.data(), many, MPI_INT, right(), 1, MPI_COMM_WORLD));
  threads[0].join();
  threads[1].join();
  ended = true;
  threads[2].join();
  EXPECT_EQ(wrong, 0);
}

#if MPI_VERSION >= 4
/// A program that gives no status for one learns that.
TEST(OfferedMistakes, of_probes_without_a_status_are_errors) {
  if (MPI_STATUS_IGNORE == nullptr) GTEST_SKIP() << "the MPI's MPI_STATUS_IGNORE is null";
  ErrorsReturn returned(MPI_COMM_WORLD);
  int found = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  EXPECT_ERROR(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, nullptr), MPI_ERR_ARG, "MPI_Iprobe", "status");
  EXPECT_ERROR(MPI_Improbe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, &message, nullptr), MPI_ERR_ARG, "MPI_Improbe",
               "status");
}
#endif

/// The offer is there before the exchange begins, which copies it at once.
TEST(OfferedExchanges, in_place_send_what_was_there_before) {
  for (const Memory memory : {Memory::gpu, Memory::host}) {
    PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
    PlacedInts replaced(memory, counting(many, 7 * rank()));
    PlacedInts in(Memory::gpu, Ints(many, -1));
    MPI_Request others[2];
    ASSERT_OK(MPI_Isend(out.data(), many, MPI_INT, right(), 1, MPI_COMM_WORLD, &others[0]));
    ASSERT_OK(MPI_Irecv(in.data(), many, MPI_INT, left(), 2, MPI_COMM_WORLD, &others[1]));
    iprobe(left(), 1);
    MPI_Status status;
    ASSERT_OK(MPI_Sendrecv_replace(replaced.data(), many, MPI_INT, right(), 2, left(), 1, MPI_COMM_WORLD, &status));
    expect_from(status, left(), 1, many);
    EXPECT_EQ(replaced.get(), counting(many, 100 * left()));
    ASSERT_OK(MPI_Waitall(2, others, MPI_STATUSES_IGNORE));
    EXPECT_EQ(in.get(), counting(many, 7 * left()));
    harness_barrier();
  }
}

#if MPI_VERSION >= 4
TEST(OfferedExchanges, receive_offers_in_either_memory) {
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  for (const Memory memory : {Memory::gpu, Memory::host}) {
    PlacedInts in(memory, Ints(many, -1));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    ASSERT_OK(MPI_Isendrecv(out.data(), many, MPI_INT, right(), 1, in.data(), many, MPI_INT, MPI_ANY_SOURCE, 1,
                            MPI_COMM_WORLD, &request));
    ASSERT_OK(MPI_Wait(&request, &status));
    expect_from(status, left(), 1, many);
    EXPECT_EQ(in.get(), counting(many, 100 * left()));
    // Behind a send that is an offer for certain.
    MPI_Request others[2];
    PlacedInts replaced(memory, Ints(many, -1));
    in.set(counting(many, 7 * rank()));
    ASSERT_OK(MPI_Isend(out.data(), many, MPI_INT, right(), 2, MPI_COMM_WORLD, &others[0]));
    ASSERT_OK(MPI_Irecv(replaced.data(), many, MPI_INT, left(), 3, MPI_COMM_WORLD, &others[1]));
    ASSERT_OK(MPI_Isendrecv_replace(in.data(), many, MPI_INT, right(), 3, left(), 2, MPI_COMM_WORLD, &request));
    ASSERT_OK(MPI_Wait(&request, &status));
    expect_from(status, left(), 2, many);
    EXPECT_EQ(in.get(), counting(many, 100 * left()));
    ASSERT_OK(MPI_Waitall(2, others, MPI_STATUSES_IGNORE));
    EXPECT_EQ(replaced.get(), counting(many, 7 * left()));
  }
}

/// To nobody that there is: no message is taken for it.
TEST(OfferedExchanges, that_cannot_send_leave_the_message_to_later_receives) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  PlacedInts in(Memory::gpu, Ints(many, -1));
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request exchange = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Issend(out.data(), many, MPI_INT, right(), 1, MPI_COMM_WORLD, &send));
  iprobe(left(), 1);
  EXPECT_NE(MPI_Isendrecv(out.data(), 1, MPI_INT, ranks() + 1, 2, in.data(), many, MPI_INT, left(), 1, MPI_COMM_WORLD,
                          &exchange),
            MPI_SUCCESS);
  ASSERT_OK(MPI_Recv(in.data(), many, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), counting(many, 100 * left()));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}
#endif

}  // namespace
}  // namespace partita::test
