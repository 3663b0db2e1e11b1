// Starts of which the MPI does not take a part, over link mpi. Where a send does not leave the epoch is open, and
// whoever waits for it hears why; where a receive does not begin no epoch is open, and the next start opens it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// The MPI starts nothing for this thread.
thread_local bool starts_fail = false;
/// It does not take the so-manieth start of this thread from here on; 0: it takes all.
thread_local int starts_until_one_fails = 0;

/// Each rank sends to its right neighbour and receives from its left one; no message leaves.
class PersistentStart : public testing::Test {
 protected:
  void SetUp() override {
    const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
    ASSERT_OK(Partita_Recv_init(&in_, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &receive()));
    ASSERT_OK(Partita_Send_init(&out_, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &send()));
    ASSERT_OK(Partita_Matchall(2, requests_.data()));
    ASSERT_OK(Partita_Start(&receive()));
    harness_barrier();  // a start behind the neighbour's failure would tell it already
  }
  void TearDown() override {
    EXPECT_ERROR(Partita_Wait(&receive(), MPI_STATUS_IGNORE), MPI_ERR_NO_MEM, "the sender", "could not send", "Start");
    for (Partita_Request& each : requests_) EXPECT_OK(Partita_Request_free(&each));
  }
  Partita_Request& receive() { return requests_[0]; }
  Partita_Request& send() { return requests_[1]; }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  int in_ = -1;
  const int out_ = 1;
  std::array<Partita_Request, 2> requests_{};
};

TEST_F(PersistentStart, that_cannot_send_opens_the_epoch_and_its_wait_tells) {
  starts_fail = true;
  EXPECT_OK(Partita_Start(&send()));
  starts_fail = false;
  EXPECT_ERROR(Partita_Wait(&send(), MPI_STATUS_IGNORE), MPI_ERR_NO_MEM, "Wait", "Start");
  EXPECT_ERROR(Partita_Start(&send()), MPI_ERR_NO_MEM, "Start");
}

/// Twice: the second time the request has failed before.
TEST_F(PersistentStart, that_cannot_send_is_told_late_where_a_queue_runs_it) {
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_HOST, nullptr));
  for (const bool fails : {true, false}) {
    starts_fail = fails;
    EXPECT_OK(Partita_Enqueue_start(queue, &send()));
    starts_fail = false;
    EXPECT_OK(Partita_Enqueue_wait(queue, &send()));
    EXPECT_ERROR(Partita_Queue_wait(queue), MPI_ERR_NO_MEM, "Queue_wait", "Start");
  }
  EXPECT_OK(Partita_Queue_free(&queue));
}

/// The receive of several messages of the MPI's, of which one had begun when the start failed.
TEST(PartitionedStart, that_has_begun_some_receives_begins_the_others_the_next_time) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::array in = {-1, -1, -1}, out = {0, 0, 0};
  std::array<Partita_Request, 2> requests{};
  auto& [receive, send] = requests;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_transport_partitions", "3");
  ASSERT_OK(Partita_Precv_init(in.data(), 3, 1, MPI_INT, left, 2, MPI_COMM_WORLD, info, &receive));
  ASSERT_OK(Partita_Psend_init(out.data(), 3, 1, MPI_INT, right, 2, MPI_COMM_WORLD, info, &send));
  MPI_Info_free(&info);
  for (int epoch = 1; epoch <= 3; ++epoch) {
    if (epoch == 2) {  // it is matched by now
      starts_until_one_fails = 2;
      EXPECT_ERROR(Partita_Start(&receive), MPI_ERR_NO_MEM, "Start");
      starts_until_one_fails = 0;
    }
    ASSERT_OK(Partita_Startall(2, requests.data()));
    out.fill(epoch * 10 + rank());
    ASSERT_OK(Partita_Pready_range(0, 2, send));
    ASSERT_OK(Partita_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    for (const int each : in) EXPECT_EQ(each, epoch * 10 + left);
  }
  for (Partita_Request& each : requests) EXPECT_OK(Partita_Request_free(&each));
}

}  // namespace
}  // namespace partita::test

/// Stands before the MPI's own.
extern "C" int PMPI_Start(MPI_Request* request) {
  using namespace partita::test;
  const bool is_the_one = starts_until_one_fails == 1;
  if (starts_until_one_fails > 0) --starts_until_one_fails;
  if (starts_fail || is_the_one) return MPI_ERR_NO_MEM;
  return reinterpret_cast<int (*)(MPI_Request*)>(dlsym(RTLD_NEXT, "PMPI_Start"))(request);
}
