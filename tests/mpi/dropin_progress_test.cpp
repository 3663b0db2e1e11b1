// MPI's progress rule (MPI-4, section 2.9): a partitioned message moves while its ranks are in any blocking call. Runs
// with the progress thread, and with progress by the calls alone.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "crossing.hpp"
#include "limited_mpi.hpp"
#include "support/errors.hpp"

namespace partita::test {
namespace {

TEST_P(Crossing, ends_around_a_barrier) {
  cross([] { ASSERT_EQ(MPI_SUCCESS, MPI_Barrier(MPI_COMM_WORLD)); });
}

TEST_P(Crossing, ends_around_collectives_that_move_data) {
  cross([] {
    int value = rank() == 1 ? 17 : 0;
    ASSERT_EQ(MPI_SUCCESS, MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD));
    ASSERT_EQ(17, value);
    int sum = 0;
    ASSERT_EQ(MPI_SUCCESS, MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    ASSERT_EQ(17 * ranks(), sum);
    std::vector<int> all(static_cast<std::size_t>(ranks()));
    const int own = rank();
    ASSERT_EQ(MPI_SUCCESS, MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < ranks(); ++i) ASSERT_EQ(i, all[static_cast<std::size_t>(i)]);
  });
}

TEST_P(Crossing, ends_around_a_synchronous_send_and_a_receive) {
  cross([] {
    int value = rank();
    MPI_Status status{};
    if (rank() == 0) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Ssend(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
      ASSERT_EQ(MPI_SUCCESS, MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status));
      ASSERT_EQ(1, status.MPI_SOURCE);
      ASSERT_EQ(1, value);
    } else if (rank() == 1) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
      ASSERT_EQ(3, status.MPI_TAG);
      value = 1;
      ASSERT_EQ(MPI_SUCCESS, MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD));
    }
  });
}

TEST_P(Crossing, ends_around_sendrecv_and_sendrecv_replace) {
  cross([] {
    const int peer = rank() < 2 ? 1 - rank() : MPI_PROC_NULL;
    const int out = rank() + 70;
    int in = -1;
    MPI_Status status{};
    ASSERT_EQ(MPI_SUCCESS, MPI_Sendrecv(&out, 1, MPI_INT, peer, 5, &in, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &status));
    std::array both = {rank(), 0};
    ASSERT_EQ(MPI_SUCCESS, MPI_Sendrecv_replace(both.data(), 2, MPI_INT, peer, 6, peer, 6, MPI_COMM_WORLD, &status));
    if (peer == MPI_PROC_NULL) return;
    ASSERT_EQ(peer + 70, in);
    ASSERT_EQ(peer, both[0]);
    ASSERT_EQ(peer, status.MPI_SOURCE);
  });
}

TEST_P(Crossing, ends_around_probes) {
  cross([] {
    int value = 23;
    MPI_Status status{};
    if (rank() == 0) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Probe(1, 7, MPI_COMM_WORLD, &status));
      ASSERT_EQ(7, status.MPI_TAG);
      ASSERT_EQ(MPI_SUCCESS, MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      MPI_Message message = MPI_MESSAGE_NULL;
      ASSERT_EQ(MPI_SUCCESS, MPI_Mprobe(1, 8, MPI_COMM_WORLD, &message, &status));
      ASSERT_EQ(MPI_SUCCESS, MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
      ASSERT_EQ(MPI_MESSAGE_NULL, message);
      ASSERT_EQ(8, status.MPI_TAG);
    } else if (rank() == 1) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
      ASSERT_EQ(MPI_SUCCESS, MPI_Send(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD));
    }
  });
}

TEST_P(Crossing, ends_around_waits_for_requests_of_the_mpi) {
  cross([] {
    if (rank() > 1) return;
    std::array<int, 3> in{};
    std::array<MPI_Request, 3> requests{};
    for (int i = 0; i < 3; ++i)
      MPI_Irecv(&in[static_cast<std::size_t>(i)], 1, MPI_INT, 1 - rank(), i, MPI_COMM_WORLD,
                &requests[static_cast<std::size_t>(i)]);
    const int out = 9;
    for (int i = 0; i < 3; ++i) MPI_Send(&out, 1, MPI_INT, 1 - rank(), i, MPI_COMM_WORLD);
    int index = -1;
    int done = 0;
    std::array<int, 3> indices{};
    ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(3, requests.data(), &index, MPI_STATUS_IGNORE));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitsome(3, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
    ASSERT_EQ((std::array{9, 9, 9}), in);
  });
}

/// Exchanges messages with the other rank, after `look(receiving)`, a loop of looks for the first of them.
template <class Look>
void exchange_after(Look look) {
  if (rank() > 1) return;
  const int peer = 1 - rank();
  const int out = 9;
  std::array in = {-1, -1};
  MPI_Request receiving = MPI_REQUEST_NULL;
  MPI_Irecv(&in[0], 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &receiving);
  for (int tag = 0; tag < 2; ++tag) MPI_Send(&out, 1, MPI_INT, peer, tag, MPI_COMM_WORLD);
  look(&receiving, peer);
  ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&receiving, MPI_STATUS_IGNORE));
  ASSERT_EQ(MPI_SUCCESS, MPI_Recv(&in[1], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  ASSERT_EQ((std::array{9, 9}), in);
}

TEST_P(Crossing, ends_around_a_loop_of_tests) {
  cross([] {
    exchange_after([](MPI_Request* receiving, int) {
      for (int flag = 0; flag == 0;) ASSERT_EQ(MPI_SUCCESS, MPI_Test(receiving, &flag, MPI_STATUS_IGNORE));
    });
  });
}

TEST_P(Crossing, ends_around_loops_of_tests_of_several) {
  cross([] {
    exchange_after([](MPI_Request* receiving, int) {
      for (int flag = 0; flag == 0;) ASSERT_EQ(MPI_SUCCESS, MPI_Testall(1, receiving, &flag, MPI_STATUSES_IGNORE));
    });
    exchange_after([](MPI_Request* receiving, int) {
      int index = 0;
      for (int flag = 0; flag == 0;)
        ASSERT_EQ(MPI_SUCCESS, MPI_Testany(1, receiving, &index, &flag, MPI_STATUS_IGNORE));
    });
    exchange_after([](MPI_Request* receiving, int) {
      int index = 0;
      for (int done = 0; done == 0;) {
        ASSERT_EQ(MPI_SUCCESS, MPI_Testsome(1, receiving, &done, &index, MPI_STATUSES_IGNORE));
      }
    });
  });
}

TEST_P(Crossing, ends_around_a_loop_of_probes) {
  cross([] {
    exchange_after([](MPI_Request*, int peer) {
      for (int flag = 0; flag == 0;) {
        ASSERT_EQ(MPI_SUCCESS, MPI_Iprobe(peer, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
      }
    });
  });
}

TEST_P(Crossing, ends_around_communicator_constructors) {
  cross([] {
    MPI_Comm duplicate = MPI_COMM_NULL;
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
    MPI_Comm half = MPI_COMM_NULL;
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_split(duplicate, rank() % 2, 0, &half));
    MPI_Comm_free(&half);
    MPI_Comm_free(&duplicate);
  });
}

TEST_P(Crossing, ends_around_constructors_of_a_few) {
  cross([] {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &comm));
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
  });
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, 0, &half);
  cross([&] {
    MPI_Comm both = MPI_COMM_NULL;
    ASSERT_EQ(MPI_SUCCESS, MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank() % 2, 6, &both));
    int one = 1, sum = 0;
    ASSERT_EQ(MPI_SUCCESS, MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both));
    ASSERT_EQ(ranks() / 2, sum);
    MPI_Comm_free(&both);
  });
  MPI_Comm_free(&half);
}

/// Whether only callers make progress, in an MPI that no other thread may call: then there is none in a call that
/// another thread would have to make.
bool is_alone() {
  const char* progress = std::getenv("PARTITA_PROGRESS");
  const bool by_caller = progress != nullptr && std::string_view(progress) == "caller";
  return most_of_mpi() < MPI_THREAD_MULTIPLE || (by_caller && thread_level() < MPI_THREAD_MULTIPLE);
}

TEST_P(Crossing, ends_around_the_detaching_of_a_buffer) {
  const bool has_iflush = MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1);
  if (is_alone() && !has_iflush) GTEST_SKIP() << "this MPI has no MPI_Buffer_iflush, and one thread calls it";
  std::vector<char> message(1024 * 1024, 'b');
  std::vector<char> buffer(message.size() + MPI_BSEND_OVERHEAD);
  const int bytes = static_cast<int>(message.size());
  cross_while_held(
      [&] {
        ASSERT_EQ(MPI_SUCCESS, MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size())));
        ASSERT_EQ(MPI_SUCCESS, MPI_Bsend(message.data(), bytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD));
        void* detached = nullptr;
        int size = 0;
        ASSERT_EQ(MPI_SUCCESS, MPI_Buffer_detach(&detached, &size));
        EXPECT_EQ(buffer.data(), detached);
        EXPECT_EQ(static_cast<int>(buffer.size()), size);
      },
      [&] {
        ASSERT_EQ(MPI_SUCCESS, MPI_Recv(message.data(), bytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      });
}

/// While rank 0 accepts, and while it connects.
TEST_P(Crossing, ends_around_the_meeting_of_two_jobs) {
  if (is_alone()) GTEST_SKIP() << "one thread calls this MPI";
  const ErrorsReturn handler(MPI_COMM_SELF);
  for (const int accepting : {0, 1}) {
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank() == accepting && MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS) port[0] = '\0';
    PMPI_Bcast(port, sizeof port, MPI_CHAR, accepting, harness_comm());
    if (port[0] == '\0') GTEST_SKIP() << "this MPI could not open a port";
    const auto meet = [&] {
      MPI_Comm other = MPI_COMM_NULL;
      ASSERT_EQ(MPI_SUCCESS, rank() == accepting ? MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)
                                                 : MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
      ASSERT_EQ(MPI_SUCCESS, MPI_Comm_disconnect(&other));
    };
    cross_while_held(meet, meet);
    if (rank() == accepting) {
      EXPECT_EQ(MPI_SUCCESS, MPI_Close_port(port));
    }
  }
}

TEST_P(Crossing, ends_around_disconnecting) {
  cross([] {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    ASSERT_EQ(MPI_SUCCESS, MPI_Comm_disconnect(&comm));
    ASSERT_EQ(MPI_COMM_NULL, comm);
  });
}

INSTANTIATE_TEST_SUITE_P(SmallAndHuge, Crossing, testing::Values(64, 64 * 1024, 4 * 1024 * 1024));

}  // namespace
}  // namespace partita::test
