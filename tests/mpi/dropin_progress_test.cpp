// MPI's progress rule (MPI-4, section 2.9): a partitioned message moves while its ranks are in any blocking call. Runs
// with the progress thread, and with progress by the calls alone.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "dropin_ring.hpp"
#include "limited_mpi.hpp"
#include "support/errors.hpp"

namespace partita::test {
namespace {

/// A partitioned message from rank 0 to rank 1 that rank 1 waits for before it enters the blocking call in which rank 0
/// is.
class Crossing : public testing::TestWithParam<int> {
 protected:
  /// Rank 0 marks, then `block`s, then waits; rank 1 waits, then `block`s. Must end.
  template <class Block>
  void cross(Block block) {
    std::vector<char> data(static_cast<std::size_t>(GetParam()), rank() == 0 ? 'p' : '-');
    MPI_Request request = MPI_REQUEST_NULL;
    constexpr int partitions = 4;
    if (rank() == 0) {
      MPI_Psend_init(data.data(), partitions, GetParam() / partitions, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
    } else if (rank() == 1) {
      MPI_Precv_init(data.data(), partitions, GetParam() / partitions, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
    }
    for (int epoch = 0; epoch < 3; ++epoch) {
      if (rank() == 0) {
        step("rank 0 starts and marks");
        MPI_Start(&request);
        for (int partition = 0; partition < partitions; ++partition) MPI_Pready(partition, request);
        step("rank 0 blocks");
        block();
        step("rank 0 waits");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else {
        if (rank() == 1) {
          step("rank 1 starts and waits");
          MPI_Start(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          ASSERT_EQ(GetParam(), std::count(data.begin(), data.end(), 'p'));
          data.assign(data.size(), '-');
        }
        step("the others block");
        block();
      }
    }
    if (request != MPI_REQUEST_NULL) {
      ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
    }
  }

  /// Rank 0 marks, then `block`s until rank 1 does `release`. Rank 1 makes its request only when rank 0 is in `block`,
  /// and releases when it has the message. Must end.
  template <class Block, class Release>
  void cross_while_held(Block block, Release release) {
    std::vector<char> data(static_cast<std::size_t>(GetParam()), rank() == 0 ? 'p' : '-');
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0) {
      MPI_Psend_init(data.data(), 1, GetParam(), MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      MPI_Pready(0, request);
      harness_barrier();
      step("rank 0 blocks");
      block();
      step("rank 0 waits");
    } else {
      harness_barrier();
      if (rank() != 1) return harness_barrier();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      MPI_Precv_init(data.data(), 1, GetParam(), MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      step("rank 1 waits");
    }
    ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_EQ(GetParam(), std::count(data.begin(), data.end(), 'p'));
    ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&request));
    if (rank() == 1) {
      step("rank 1 releases");
      release();
    }
    harness_barrier();
  }
};

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

TEST_P(Crossing, ends_around_windows) {
  cross([] {
    int* words = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window));
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_free(&window));
  });
  int* words = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_Win_fence(0, window)); });
  MPI_Win_free(&window);
}

TEST_P(Crossing, ends_around_epochs_of_windows_that_only_two_ranks_open) {
  int* words = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
  MPI_Group all = MPI_GROUP_NULL, peer = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  const int other = rank() == 0 ? 1 : 0;
  MPI_Group_incl(all, 1, &other, &peer);
  const auto put = [&] {
    const int value = 40 + rank();
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_start(peer, 0, window));
    ASSERT_EQ(MPI_SUCCESS, MPI_Put(&value, 1, MPI_INT, other, 3, 1, MPI_INT, window));
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_complete(window));
  };
  const auto take = [&] {
    words[3] = 0;
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_post(peer, 0, window));
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_wait(window));
    ASSERT_EQ(40 + other, words[3]);
  };
  for (const int origin : {0, 1}) {
    cross([&] {
      if (rank() > 1) return;
      rank() == origin ? put() : take();
    });
  }
  MPI_Group_free(&peer);
  MPI_Group_free(&all);
  MPI_Win_free(&window);
}

/// A window of 16 words a rank.
class Window {
 public:
  Window() { MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window); }
  ~Window() { MPI_Win_free(&window); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void put(int target, int value) const {
    ASSERT_EQ(MPI_SUCCESS, MPI_Put(&value, 1, MPI_INT, target, 3, 1, MPI_INT, window));
  }
  int get(int target) const {
    int value = -1;
    MPI_Get(&value, 1, MPI_INT, target, 3, 1, MPI_INT, window);
    MPI_Win_flush(target, window);
    return value;
  }

  int* words = nullptr;
  MPI_Win window = MPI_WIN_NULL;
};

TEST_P(Crossing, ends_though_rank_1_holds_a_lock_that_rank_0_wants) {
  const Window window;
  MPI_Win win = window.window;
  for (int target = 0; target < ranks(); ++target) {
    for (const int type : {MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED}) {
      if (rank() == 1) {
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(type, target, 0, win));
        window.put(target, 70 + target);
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_flush(target, win));
      }
      cross_while_held(
          [&] {
            ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
            EXPECT_EQ(80 + target, window.get(target)) << "what the holder of the lock put last";
            ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(target, win));
          },
          [&] {
            window.put(target, 80 + target);
            ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(target, win));
          });
    }
  }
}

TEST_P(Crossing, ends_though_rank_1_holds_a_lock_of_all_that_rank_0_wants) {
  const Window window;
  MPI_Win win = window.window;
  const int last = ranks() - 1;
  if (rank() == 1) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock_all(0, win));
    window.put(last, 70);
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_flush(last, win));
  }
  cross_while_held(
      [&] {
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win));
        window.put(last, 90);
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(last, win));
      },
      [&] { ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock_all(win)); });
  if (rank() == 1) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
  }
  cross_while_held(
      [&] {
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock_all(0, win));
        EXPECT_EQ(90, window.get(last));
        ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock_all(win));
      },
      [&] { ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(0, win)); });
}

/// Locks hold as before: each rank adds to a word that it reads and writes apart.
TEST(Locks, keep_others_out) {
  const Window window;
  *(window.words + 3) = 0;
  harness_barrier();
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.window));
    window.put(0, window.get(0) + 1);
    ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(0, window.window));
  }
  harness_barrier();
  ASSERT_EQ(MPI_SUCCESS, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.window));
  EXPECT_EQ(rounds * ranks(), window.get(0));
  ASSERT_EQ(MPI_SUCCESS, MPI_Win_unlock(0, window.window));
  harness_barrier();
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

/// A file of four bytes a rank, open on all of them.
class SharedFile {
 public:
  SharedFile() {
    const std::string name = testing::TempDir() + "partita_shared_" + std::to_string(from_rank_zero(getpid()));
    EXPECT_EQ(MPI_SUCCESS,
              MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &file));
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  }
  ~SharedFile() { EXPECT_EQ(MPI_SUCCESS, MPI_File_close(&file)); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  MPI_File file = MPI_FILE_NULL;
};

TEST_P(Crossing, ends_around_collective_access_to_files) {
  const SharedFile shared;
  MPI_File file = shared.file;
  MPI_Status status{};
  cross([&] {
    const int own = rank() + 5;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_write_at_all(file, rank(), &own, 1, MPI_INT, &status));
  });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_sync(file)); });
  cross([&] {
    int read = -1;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all(file, rank(), &read, 1, MPI_INT, &status));
    ASSERT_EQ(rank() + 5, read);
  });
  cross([&] {
    int read = -1;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_begin(file, rank(), &read, 1, MPI_INT));
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_end(file, &read, &status));
    ASSERT_EQ(rank() + 5, read);
  });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)); });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_set_size(file, 4 * static_cast<MPI_Offset>(ranks()))); });
}

TEST_P(Crossing, ends_around_files) {
  const std::string name = testing::TempDir() + "partita_crossing_" + std::to_string(from_rank_zero(getpid()));
  cross([&] {
    MPI_File file = MPI_FILE_NULL;
    ASSERT_EQ(MPI_SUCCESS,
              MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &file));
    ASSERT_EQ(MPI_SUCCESS, MPI_File_close(&file));
  });
}

/// As MPIs report it, whatever the drop-in asks its MPI for.
TEST(ThreadLevel, is_the_lesser_of_what_the_mpi_gives_and_the_program_asks_for) {
  const char* name = std::getenv("PARTITEST_THREAD_LEVEL");
  const std::string_view asked = name == nullptr ? "multiple" : name;
  const int asked_level = asked == "single"       ? MPI_THREAD_SINGLE
                          : asked == "funneled"   ? MPI_THREAD_FUNNELED
                          : asked == "serialized" ? MPI_THREAD_SERIALIZED
                                                  : MPI_THREAD_MULTIPLE;
  EXPECT_EQ(std::min(asked_level, most_of_mpi()), thread_level());
  int level = -1;
  ASSERT_EQ(MPI_SUCCESS, MPI_Query_thread(&level));
  EXPECT_EQ(level, thread_level());
}

INSTANTIATE_TEST_SUITE_P(SmallAndHuge, Crossing, testing::Values(64, 64 * 1024, 4 * 1024 * 1024));

}  // namespace
}  // namespace partita::test
