// Several threads of a rank at once, under MPI_THREAD_MULTIPLE. Race-checked when built with the thread sanitizer.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int thread_count = 4;

/// Runs `work(i)` on `thread_count` threads that begin together, and joins them.
void on_threads(const std::function<void(int)>& work) {
  std::atomic<int> here{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      for (++here; here < thread_count;) sched_yield();
      work(i);
    });
  }
  for (auto& thread : threads) thread.join();
}

template <class Face>
class Threads : public testing::Test {
 protected:
  void SetUp() override {
    if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "this MPI does not grant MPI_THREAD_MULTIPLE";
  }
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }
};

TYPED_TEST_SUITE(Threads, Faces, FaceNames);

constexpr auto epochs_each = repetitions<std::uint64_t>(8, 2);

TYPED_TEST(Threads, several_mark_the_partitions_of_one_request_while_others_poll_them) {
  constexpr int partitions = 64;
  for (const std::int64_t partition_bytes : {16, 5000, 40000}) {
    for (const char* transport_partitions : {"", "8", "64"}) {
      SCOPED_TRACE(std::to_string(partition_bytes) + " bytes a partition");
      MPI_Info info = info_with("partita_transport_partitions", transport_partitions);
      Sending<TypeParam> send;
      Receiving<TypeParam> recv;
      send.init(partitions, partition_bytes, this->right(), 3, MPI_COMM_WORLD, info);
      recv.init(partitions / 2, 2 * partition_bytes, this->left(), 3);
      if (info != MPI_INFO_NULL) MPI_Info_free(&info);
      RETURN_IF_FAILED();
      for (std::uint64_t key = 1; key <= epochs_each; ++key) {
        recv.start();
        send.start();
        RETURN_IF_FAILED();
        std::thread pollers([&] {
          // Every poller looks at every partition, so that one partition's flag has several readers.
          on_threads([&](int i) {
            for (int n = 0; n < recv.partitions() && !testing::Test::HasFailure(); ++n) {
              const int r = (n + i * 7) % recv.partitions();
              while (!recv.arrived(r) && !testing::Test::HasFailure()) sched_yield();
              EXPECT_TRUE(recv.holds(r, key));
            }
          });
        });
        on_threads([&](int i) {
          Random random(key, static_cast<std::uint64_t>(i));
          std::vector<int> own;
          for (int p = i; p < partitions; p += thread_count) own.push_back(p);
          random.shuffle(own);
          for (const int p : own) send.mark(p, key);
        });
        pollers.join();
        send.wait();
        recv.wait_for(key);
        RETURN_IF_FAILED();
      }
      send.free();
      recv.free();
    }
  }
}

TYPED_TEST(Threads, each_runs_requests_of_its_own_from_init_to_free) {
  on_threads([&](int i) {
    for (int round = 0; round < 10 && !testing::Test::HasFailure(); ++round) {
      const std::int64_t partition_bytes = round % 2 == 0 ? 100 : 30000;
      Sending<TypeParam> send;
      Receiving<TypeParam> recv;
      send.init(4, partition_bytes, this->right(), 10 + i);
      recv.init(2, 2 * partition_bytes, this->left(), 10 + i);
      for (std::uint64_t epoch = 1; epoch <= 5 && !testing::Test::HasFailure(); ++epoch) {
        const std::uint64_t key = epoch * 1000 + static_cast<std::uint64_t>(i);
        run_epoch(send, recv, key);
      }
      send.free();
      recv.free();
    }
  });
}

TYPED_TEST(Threads, one_waits_while_others_mark) {
  constexpr int partitions = 16;
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  MPI_Info info = info_with("partita_transport_partitions", "4");
  send.init(partitions, 3000, this->right(), 3, MPI_COMM_WORLD, info);
  recv.init(partitions, 3000, this->left(), 3);
  MPI_Info_free(&info);
  RETURN_IF_FAILED();
  for (std::uint64_t key = 1; key <= 30; ++key) {
    recv.start();
    send.start();
    RETURN_IF_FAILED();
    std::thread receiver([&] { recv.wait_for(key); });
    on_threads([&](int i) {
      for (int p = i; p < partitions; p += thread_count) send.mark(p, key);
    });
    send.wait();
    receiver.join();
    RETURN_IF_FAILED();
  }
  send.free();
  recv.free();
}

TYPED_TEST(Threads, partitioned_and_plain_messages_of_different_threads_go_side_by_side) {
  on_threads([&](int i) {
    if (i % 2 == 0) {
      Sending<TypeParam> send;
      Receiving<TypeParam> recv;
      send.init(4, 2000, this->right(), 20 + i);
      recv.init(4, 2000, this->left(), 20 + i);
      for (std::uint64_t key = 1; key <= 40 && !testing::Test::HasFailure(); ++key) {
        run_epoch(send, recv, key);
      }
      send.free();
      recv.free();
      return;
    }
    for (int n = 0; n < 200; ++n) {
      int sent = rank() * 1000 + n, got = -1;
      MPI_Sendrecv(&sent, 1, MPI_INT, this->right(), 40 + i, &got, 1, MPI_INT, this->left(), 40 + i, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      EXPECT_EQ(got, this->left() * 1000 + n);
    }
  });
}

}  // namespace
}  // namespace partita::test
