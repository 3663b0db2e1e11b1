// Partitions of collectives marked in whatever order, alone, together and by several threads at once, in host memory
// and on the fake GPU: none waits for a neighbour, the results are the same bit by bit, and none lies over what is
// still to be read.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
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

/// Such that the bits of results may depend on how a call reduces an element: most MPIs take some in vectors, and what
/// is left at the ends alone.
enum class Numbers : std::uint8_t {
  sums,      ///< of floats, which are rounded
  greatest,  ///< of zeros of both signs, and of what is no number; some are plain ones
  overflow,  ///< sums of short integers, most of which are too large
};

const char* word_of(Numbers numbers) {
  constexpr const char* names[] = {"sums", "greatest", "overflow"};
  return names[static_cast<int>(numbers)];
}

/// In the names of cases.
const char* word_of(Memory memory) {
  return memory == Memory::gpu ? "gpu" : "host";
}

struct MarkCase {
  Memory memory;
  const char* algorithm;  ///< of an allreduce
  Numbers numbers;
};

std::vector<MarkCase> mark_cases() {
  std::vector<MarkCase> cases;
  for (const Memory memory : {Memory::plain, Memory::gpu}) {
    for (const char* algorithm : {"recursive_doubling", "ring"}) {
      for (const Numbers numbers : {Numbers::sums, Numbers::greatest, Numbers::overflow}) {
        cases.push_back({memory, algorithm, numbers});
      }
    }
  }
  return cases;
}

/// More than share a course, a last one that is not full, and partitions whose neighbours follow in another transfer.
constexpr int course_partitions = 100, course_count = 12;

class CollectiveMarks : public testing::TestWithParam<MarkCase> {
 protected:
  void SetUp() override {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_algorithm", GetParam().algorithm);
    const bool are_short = GetParam().numbers == Numbers::overflow;
    ASSERT_OK(Partita_Pallreduce_init(
        sent_.address(), received_.address(), course_partitions, course_count, are_short ? MPI_SHORT : MPI_FLOAT,
        GetParam().numbers == Numbers::greatest ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD, info, &request_));
    MPI_Info_free(&info);
  }
  void TearDown() override { EXPECT_OK(Partita_Request_free(&request_)); }

  static constexpr int elements = course_partitions * course_count;
  std::int64_t size_bytes() const {
    return elements *
           static_cast<std::int64_t>(GetParam().numbers == Numbers::overflow ? sizeof(short) : sizeof(float));
  }

  static float summand(int of_rank, int key, int i) { return 1.0F / static_cast<float>(3 + i + 7 * of_rank + key); }
  /// Each fifth element is a plain number on all ranks.
  static bool is_plain(int i) { return i % 5 == 4; }
  static float candidate(int of_rank, int key, int i) {
    if (is_plain(i)) return static_cast<float>((i * 13 + of_rank * 7 + key) % 11);
    const std::uint32_t bits[] = {0x00000000, 0x80000000, 0x7fc00001, 0xffc00002};
    return std::bit_cast<float>(bits[(i + of_rank * (1 + i / 4 % 3) + key) % 4]);
  }
  /// Each third element's sum is small.
  static bool is_small(int i) { return i % 3 == 0; }
  static short addend(int of_rank, int key, int i) {
    if (is_small(i)) return static_cast<short>(100 * of_rank + i % 50 - key);
    return static_cast<short>((i % 2 == 0 ? 1 : -1) * (20000 + 500 * of_rank + 10 * key + i));
  }

  void start(int key) {
    sent_.write(0, size_bytes(), [&](std::uint8_t* bytes) {
      const auto put = [&bytes](auto number) {
        std::memcpy(bytes, &number, sizeof number);
        bytes += sizeof number;
      };
      for (int i = 0; i < elements; ++i) {
        switch (GetParam().numbers) {
          case Numbers::sums:
            put(summand(rank(), key, i));
            break;
          case Numbers::greatest:
            put(candidate(rank(), key, i));
            break;
          case Numbers::overflow:
            put(addend(rank(), key, i));
            break;
        }
      }
    });
    ASSERT_OK(Partita_Start(&request_));
  }
  std::vector<std::uint8_t> wait() {
    EXPECT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    return received_.read(0, size_bytes(),
                          [&](const std::uint8_t* bytes) { return std::vector(bytes, bytes + size_bytes()); });
  }
  template <class Number>
  static Number number(const std::vector<std::uint8_t>& results, int i) {
    Number number{};
    std::memcpy(&number, results.data() + static_cast<std::size_t>(i) * sizeof number, sizeof number);
    return number;
  }
  /// Only elements are compared whose result is the same whatever way they are computed.
  void expect_results(const std::vector<std::uint8_t>& results, int key) const {
    for (int i = 0; i < elements; ++i) {
      double sum = 0;
      float greatest = 0;
      int small = 0;
      for (int r = 0; r < ranks(); ++r) {
        sum += 1.0 / (3 + i + 7 * r + key);
        greatest = std::max(greatest, is_plain(i) ? candidate(r, key, i) : 0);
        small += addend(r, key, i);
      }
      if (GetParam().numbers == Numbers::sums) {
        ASSERT_NEAR(number<float>(results, i), sum, 1e-6) << "element " << i;
      } else if (GetParam().numbers == Numbers::greatest && is_plain(i)) {
        ASSERT_EQ(number<float>(results, i), greatest) << "element " << i;
      } else if (GetParam().numbers == Numbers::overflow && is_small(i)) {
        ASSERT_EQ(number<short>(results, i), small) << "element " << i;
      }
    }
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

  Bytes sent_{GetParam().memory, size_bytes()};
  Bytes received_{GetParam().memory, size_bytes()};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_P(CollectiveMarks, together_give_the_bits_that_they_give_alone) {
  for (int key = 1; key <= repetitions(2, 1); ++key) {
    const std::vector<std::uint8_t> alone = one_by_one(key);
    ASSERT_FALSE(HasFailure());
    start(key);
    ASSERT_OK(Partita_Pready_range(0, course_partitions - 1, request_));
    ASSERT_EQ(wait(), alone);
    expect_results(alone, key);
  }
}

TEST_P(CollectiveMarks, of_several_threads_give_the_same) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "one thread calls this MPI";
  constexpr int threads = 3;
  const std::vector<std::uint8_t> alone = one_by_one(1);
  ASSERT_FALSE(HasFailure());
  for (int epoch = 0; epoch < repetitions(4, 2); ++epoch) {
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

INSTANTIATE_TEST_SUITE_P(All, CollectiveMarks, testing::ValuesIn(mark_cases()), [](const auto& info) {
  const MarkCase& of = info.param;
  return std::string(word_of(of.memory)) + "_" + of.algorithm + "_" + word_of(of.numbers);
});

struct ScatterCase {
  Memory memory;
  const char* algorithm;
};

/// A reduce_scatter in place whose blocks differ: the result of a partition lies over what others send, those of other
/// courses, too.
class ScatteredMarks : public testing::TestWithParam<ScatterCase> {
 protected:
  static constexpr int partitions = 70;

  void SetUp() override {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_algorithm", GetParam().algorithm);
    ASSERT_OK(Partita_Preduce_scatter_init(MPI_IN_PLACE, data_.address(), partitions, counts_.data(), MPI_INT, MPI_SUM,
                                           MPI_COMM_WORLD, info, &request_));
    MPI_Info_free(&info);
  }
  void TearDown() override { EXPECT_OK(Partita_Request_free(&request_)); }

  static std::vector<MPI_Count> differing_counts() {
    std::vector<MPI_Count> counts(static_cast<std::size_t>(ranks()));
    std::iota(counts.begin(), counts.end(), 2);
    return counts;
  }
  int elements() const { return partitions * static_cast<int>(std::accumulate(counts_.begin(), counts_.end(), 0LL)); }
  static int addend(int of_rank, int epoch, int i) { return 100000 * epoch + 10000 * of_rank + i; }
  void start(int epoch) {
    data_.write(0, data_.size_bytes(), [&](std::uint8_t* bytes) {
      for (int i = 0; i < elements(); ++i) {
        const int number = addend(rank(), epoch, i);
        std::memcpy(bytes + static_cast<std::size_t>(i) * sizeof number, &number, sizeof number);
      }
    });
    ASSERT_OK(Partita_Start(&request_));
  }
  /// This rank's block lies first.
  void expect_results(int epoch) const {
    const int own = partitions * static_cast<int>(counts_[static_cast<std::size_t>(rank())]);
    const int before = partitions * static_cast<int>(std::accumulate(counts_.begin(), counts_.begin() + rank(), 0LL));
    data_.read(0, own * static_cast<std::int64_t>(sizeof(int)), [&](const std::uint8_t* bytes) {
      for (int i = 0; i < own; ++i) {
        int sum = 0;
        for (int r = 0; r < ranks(); ++r) sum += addend(r, epoch, before + i);
        int number = 0;
        std::memcpy(&number, bytes + static_cast<std::size_t>(i) * sizeof number, sizeof number);
        ASSERT_EQ(number, sum) << "element " << i << ", epoch " << epoch;
      }
    });
  }

  const std::vector<MPI_Count> counts_ = differing_counts();  ///< elements of a partition, by rank
  Bytes data_{GetParam().memory, elements() * static_cast<std::int64_t>(sizeof(int))};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_P(ScatteredMarks, of_one_half_give_no_results_before_the_other_one) {
  constexpr int half = partitions / 2;
  for (int epoch = 1; epoch <= 4; ++epoch) {
    const bool last_first = epoch % 2 == 0;
    start(epoch);
    ASSERT_OK(last_first ? Partita_Pready_range(half, partitions - 1, request_)
                         : Partita_Pready_range(0, half - 1, request_));
    harness_barrier();  // all that can go on goes on
    for (int look = 0; look < 20; ++look) {
      for (const int p : {0, half - 1, half, partitions - 1}) {
        int flag = -1;
        ASSERT_OK(Partita_Parrived(request_, p, &flag));
        ASSERT_EQ(flag, 0) << "partition " << p << ", epoch " << epoch;
      }
    }
    ASSERT_OK(last_first ? Partita_Pready_range(0, half - 1, request_)
                         : Partita_Pready_range(half, partitions - 1, request_));
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    expect_results(epoch);
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScatteredMarks,
                         testing::Values(ScatterCase{Memory::plain, "pairwise"}, ScatterCase{Memory::plain, "ring"},
                                         ScatterCase{Memory::gpu, "pairwise"}, ScatterCase{Memory::gpu, "ring"}),
                         [](const auto& info) {
                           return std::string(word_of(info.param.memory)) + "_" + info.param.algorithm;
                         });

}  // namespace
}  // namespace partita::test
