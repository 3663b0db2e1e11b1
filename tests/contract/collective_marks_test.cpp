// Partitions of collectives marked in whatever order, alone, together and by several threads at once, in host memory
// and on the fake GPU: none waits for a neighbour, and the results are the same bit by bit.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

struct MarkCase {
  Memory memory;
  const char* algorithm;  ///< of an allreduce
};

/// More than share a course, a last one that is not full, and partitions whose neighbours follow in another transfer.
constexpr int course_partitions = 100, course_count = 12;

class CollectiveMarks : public testing::TestWithParam<MarkCase> {
 protected:
  void SetUp() override {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_algorithm", GetParam().algorithm);
    ASSERT_OK(Partita_Pallreduce_init(sent_.address(), received_.address(), course_partitions, course_count, MPI_FLOAT,
                                      MPI_SUM, MPI_COMM_WORLD, info, &request_));
    MPI_Info_free(&info);
  }
  void TearDown() override { EXPECT_OK(Partita_Request_free(&request_)); }

  static constexpr int elements = course_partitions * course_count;
  static constexpr std::int64_t size_bytes = elements * sizeof(float);

  /// Sums of such numbers are rounded.
  void start(int key) {
    sent_.write(0, size_bytes, [&](std::uint8_t* bytes) {
      for (int i = 0; i < elements; ++i) {
        const float number = 1.0F / static_cast<float>(3 + i + 7 * rank() + key);
        std::memcpy(bytes + i * sizeof number, &number, sizeof number);
      }
    });
    ASSERT_OK(Partita_Start(&request_));
  }
  std::vector<std::uint8_t> wait() {
    EXPECT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    return received_.read(0, size_bytes,
                          [](const std::uint8_t* bytes) { return std::vector(bytes, bytes + size_bytes); });
  }
  /// Every call marks one, in the same random order on all ranks. Some are awaited before others are marked.
  std::vector<std::uint8_t> one_by_one(int key) {
    start(key);
    Random random(job_seed(), static_cast<std::uint64_t>(key));
    for (const int p : random.permutation(course_partitions)) {
      EXPECT_OK(Partita_Pready(p, request_));
      for (int flag = random.one_in(10) ? 0 : 1; flag == 0 && !HasFailure();) {
        EXPECT_OK(Partita_Parrived(request_, p, &flag));
        if (flag == 0) sched_yield();
      }
    }
    return wait();
  }

  Bytes sent_{GetParam().memory, size_bytes};
  Bytes received_{GetParam().memory, size_bytes};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_P(CollectiveMarks, together_give_the_bits_that_they_give_alone) {
  for (int key = 1; key <= 2; ++key) {
    const std::vector<std::uint8_t> alone = one_by_one(key);
    ASSERT_FALSE(HasFailure());
    start(key);
    ASSERT_OK(Partita_Pready_range(0, course_partitions - 1, request_));
    ASSERT_EQ(wait(), alone);
    std::vector<float> sums(elements);
    std::memcpy(sums.data(), alone.data(), alone.size());
    for (int i = 0; i < elements; ++i) {
      double sum = 0;
      for (int r = 0; r < ranks(); ++r) sum += 1.0 / (3 + i + 7 * r + key);
      ASSERT_NEAR(sums[static_cast<std::size_t>(i)], sum, 1e-6) << "element " << i;
    }
  }
}

TEST_P(CollectiveMarks, of_several_threads_give_the_same) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "one thread calls this MPI";
  constexpr int threads = 3;
  const std::vector<std::uint8_t> alone = one_by_one(1);
  ASSERT_FALSE(HasFailure());
  for (int epoch = 0; epoch < repetitions(10, 4); ++epoch) {
    start(1);
    std::vector<std::thread> marking;
    for (int t = 0; t < threads; ++t) {
      marking.emplace_back([&, t] {
        Random random(job_seed(), static_cast<std::uint64_t>(1000 * rank() + threads * epoch + t));
        // Runs of four neighbours, some of which are marked one after the other.
        for (const int run : random.permutation(course_partitions / 4)) {
          if (run % threads != t) continue;
          if (random.one_in(2)) {
            EXPECT_OK(Partita_Pready_range(4 * run, 4 * run + 3, request_));
          } else {
            for (const int p : random.permutation(4)) EXPECT_OK(Partita_Pready(4 * run + p, request_));
          }
        }
      });
    }
    for (std::thread& thread : marking) thread.join();
    ASSERT_EQ(wait(), alone) << "epoch " << epoch;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveMarks,
                         testing::Values(MarkCase{Memory::plain, "recursive_doubling"}, MarkCase{Memory::plain, "ring"},
                                         MarkCase{Memory::gpu, "recursive_doubling"}, MarkCase{Memory::gpu, "ring"}),
                         [](const auto& info) {
                           const char* const memory = info.param.memory == Memory::gpu ? "gpu_" : "host_";
                           return memory + std::string(info.param.algorithm);
                         });

}  // namespace
}  // namespace partita::test
