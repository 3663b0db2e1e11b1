// The progress rule in calls on windows: a partitioned message moves while its ranks open, close and free epochs, and
// while they wait for a lock.
#include "crossing.hpp"

namespace partita::test {
namespace {

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

INSTANTIATE_TEST_SUITE_P(SmallAndHugeWindows, Crossing, testing::Values(64, 64 * 1024, 4 * 1024 * 1024));

}  // namespace
}  // namespace partita::test
