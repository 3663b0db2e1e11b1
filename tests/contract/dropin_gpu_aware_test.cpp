// The MPI's own calls on GPU memory: an MPI that knows none of it, with the drop-in in front.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <tuple>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// Integers in this rank's GPU, unless said otherwise.
class Numbers : public PlacedInts {
 public:
  explicit Numbers(const Ints& values, bool on_gpu = true) : PlacedInts(on_gpu ? Memory::gpu : Memory::host, values) {}
};

/// Whether the sender's and the receiver's buffers lie in GPU memory.
class GpuAware : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  static constexpr int count = 20'000;
  Numbers out{counting(count, rank()), std::get<0>(GetParam())};
  Numbers in{Ints(count, -1), std::get<1>(GetParam())};

  void expect_arrived(const MPI_Status& status) {
    EXPECT_EQ(in.get(), counting(count, left()));
    EXPECT_EQ(status.MPI_SOURCE, left());
    int received = 0;
    EXPECT_OK(MPI_Get_count(&status, MPI_INT, &received));
    EXPECT_EQ(received, count);
  }
  /// `send` blocks no longer than until a receive has begun.
  template <class Send>
  void receive_what(Send send) {
    MPI_Request receive = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, left(), 5, MPI_COMM_WORLD, &receive));
    harness_barrier();
    ASSERT_OK(send());
    MPI_Status status;
    ASSERT_OK(MPI_Wait(&receive, &status));
    EXPECT_EQ(receive, MPI_REQUEST_NULL);
    expect_arrived(status);
  }
};

TEST_P(GpuAware, sends_of_all_modes_arrive) {
  receive_what([&] { return MPI_Send(out.data(), count, MPI_INT, right(), 5, MPI_COMM_WORLD); });
  receive_what([&] { return MPI_Ssend(out.data(), count, MPI_INT, right(), 5, MPI_COMM_WORLD); });
  receive_what([&] { return MPI_Rsend(out.data(), count, MPI_INT, right(), 5, MPI_COMM_WORLD); });
  std::vector<char> attached(count * sizeof(int) + MPI_BSEND_OVERHEAD);
  ASSERT_OK(MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size())));
  receive_what([&] { return MPI_Bsend(out.data(), count, MPI_INT, right(), 5, MPI_COMM_WORLD); });
  void* buffer = nullptr;
  int size = 0;
  ASSERT_OK(MPI_Buffer_detach(&buffer, &size));
}

TEST_P(GpuAware, a_blocking_receive_and_a_probe_find_them) {
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Status status;
  ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, right(), 6, MPI_COMM_WORLD, &send));
  ASSERT_OK(MPI_Recv(in.data(), count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  expect_arrived(status);

  MPI_Message message = MPI_MESSAGE_NULL;
  ASSERT_OK(MPI_Issend(out.data(), count, MPI_INT, right(), 7, MPI_COMM_WORLD, &send));
  ASSERT_OK(MPI_Mprobe(left(), 7, MPI_COMM_WORLD, &message, &status));
  ASSERT_OK(MPI_Mrecv(in.data(), count, MPI_INT, &message, &status));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  expect_arrived(status);

  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, right(), 8, MPI_COMM_WORLD, &send));
  ASSERT_OK(MPI_Mprobe(left(), 8, MPI_COMM_WORLD, &message, &status));
  ASSERT_OK(MPI_Imrecv(in.data(), count, MPI_INT, &message, &receive));
  ASSERT_OK(MPI_Wait(&receive, &status));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  expect_arrived(status);
}

TEST_P(GpuAware, both_ways_at_once) {
  MPI_Status status;
  ASSERT_OK(MPI_Sendrecv(out.data(), count, MPI_INT, right(), 9, in.data(), count, MPI_INT, left(), 9, MPI_COMM_WORLD,
                         &status));
  expect_arrived(status);
  ASSERT_OK(MPI_Sendrecv_replace(out.data(), count, MPI_INT, right(), 10, left(), 10, MPI_COMM_WORLD, &status));
  EXPECT_EQ(out.get(), counting(count, left()));
  EXPECT_EQ(status.MPI_SOURCE, left());
  EXPECT_EQ(status.MPI_TAG, 10);
}

TEST_P(GpuAware, requests_stand_among_others) {
  Numbers host_in(Ints(3, -1), false);
  Numbers host_out(counting(3, 100 * rank()), false);
  std::vector<MPI_Request> requests(5, MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Irecv(host_in.data(), 3, MPI_INT, left(), 11, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, left(), 12, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, right(), 12, MPI_COMM_WORLD, &requests[3]));
  ASSERT_OK(MPI_Isend(host_out.data(), 3, MPI_INT, right(), 11, MPI_COMM_WORLD, &requests[4]));
  std::vector<MPI_Status> statuses(5);
  ASSERT_OK(MPI_Waitall(5, requests.data(), statuses.data()));
  EXPECT_EQ(requests, std::vector<MPI_Request>(5, MPI_REQUEST_NULL));
  EXPECT_EQ(host_in.get(), counting(3, 100 * left()));
  expect_arrived(statuses[1]);
}

INSTANTIATE_TEST_SUITE_P(All, GpuAware, testing::Combine(testing::Bool(), testing::Bool()), [](const auto& info) {
  return std::string(std::get<0>(info.param) ? "gpu" : "host") + (std::get<1>(info.param) ? "_to_gpu" : "_to_host");
});

TEST(GpuAwareCalls, complete_in_the_order_in_which_messages_come) {
  Numbers in(Ints(2, -1));
  MPI_Request requests[2];
  ASSERT_OK(MPI_Irecv(in.data(), 1, MPI_INT, left(), 1, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(MPI_Irecv(in.data() + 1, 1, MPI_INT, left(), 2, MPI_COMM_WORLD, &requests[1]));
  Numbers out({rank(), 10 * rank()});
  ASSERT_OK(MPI_Send(out.data() + 1, 1, MPI_INT, right(), 2, MPI_COMM_WORLD));
  int index = -1;
  MPI_Status status;
  ASSERT_OK(MPI_Waitany(2, requests, &index, &status));
  EXPECT_EQ(index, 1);
  EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
  harness_barrier();
  ASSERT_OK(MPI_Send(out.data(), 1, MPI_INT, right(), 1, MPI_COMM_WORLD));
  int done = 0;
  int indices[2];
  ASSERT_OK(MPI_Waitsome(2, requests, &done, indices, MPI_STATUSES_IGNORE));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(indices[0], 0);
  EXPECT_EQ(in.get(), (Ints{left(), 10 * left()}));
}

TEST(GpuAwareCalls, keep_gaps_of_datatypes) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_vector(4, 1, 3, MPI_INT, &column));
  ASSERT_OK(MPI_Type_commit(&column));
  Numbers out(counting(12, 100 * rank()));
  Numbers in(Ints(12, -1));
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data() + 1, 1, column, left(), 3, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Send(out.data() + 2, 1, column, right(), 3, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Type_free(&column));
  Ints expected(12, -1);
  for (unsigned row = 0; row < 4; ++row) expected[3 * row + 1] = 100 * left() + 3 * static_cast<int>(row) + 2;
  EXPECT_EQ(in.get(), expected);
}

TEST(GpuAwareCalls, take_no_part_where_there_is_nobody_or_nothing) {
  Numbers memory({7});
  MPI_Status status;
  ASSERT_OK(MPI_Send(memory.data(), 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Recv(memory.data(), 1, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
  EXPECT_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
  ASSERT_OK(MPI_Sendrecv(memory.data(), 0, MPI_INT, right(), 3, memory.data(), 0, MPI_INT, left(), 3, MPI_COMM_WORLD,
                         &status));
  EXPECT_EQ(status.MPI_SOURCE, left());
  EXPECT_EQ(memory.get(), Ints{7});
}

TEST(GpuAwareCalls, cancel_and_free_as_the_mpis) {
  Numbers in(Ints{7, 7});
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data(), 1, MPI_INT, left(), 98, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Cancel(&receive));
  MPI_Status status;
  ASSERT_OK(MPI_Wait(&receive, &status));
  int cancelled = 0;
  ASSERT_OK(MPI_Test_cancelled(&status, &cancelled));
  EXPECT_EQ(cancelled, 1);

  Numbers out({3});
  MPI_Request send = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data() + 1, 1, MPI_INT, left(), 4, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Isend(out.data(), 1, MPI_INT, right(), 4, MPI_COMM_WORLD, &send));
  ASSERT_OK(MPI_Request_free(&send));
  EXPECT_EQ(send, MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), (Ints{7, 3}));
}

#if MPI_VERSION >= 4
TEST(GpuAwareCalls, have_large_counts) {
  Numbers out({rank()});
  Numbers in({-1});
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv_c(in.data(), 1, MPI_INT, left(), 4, MPI_COMM_WORLD, &receive));
  ASSERT_OK(MPI_Send_c(out.data(), 1, MPI_INT, right(), 4, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), Ints{left()});
}
#endif

/// A message that fails is gone, as the MPI's own are.
TEST(GpuAwareCalls, end_requests_that_fail) {
  if (ranks() == 1) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  ErrorsReturn returned(MPI_COMM_WORLD);
  Numbers in(Ints(2, -1));
  Numbers out(counting(3, 0));
  for (const bool in_array : {false, true}) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    ASSERT_OK(MPI_Irecv(in.data(), 2, MPI_INT, left(), 6, MPI_COMM_WORLD, &requests[0]));
    ASSERT_OK(MPI_Isend(out.data(), 3, MPI_INT, right(), 6, MPI_COMM_WORLD, &requests[1]));
    step("the wait that fails");
    if (in_array) {
      MPI_Status statuses[2];
      EXPECT_EQ(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
      EXPECT_EQ(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    } else {
      EXPECT_EQ(class_of(MPI_Wait(&requests[0], MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
    }
    EXPECT_EQ(requests[0], MPI_REQUEST_NULL);
    EXPECT_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    harness_barrier();
  }
}

}  // namespace
}  // namespace partita::test
