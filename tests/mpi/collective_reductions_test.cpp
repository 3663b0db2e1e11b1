// Reductions that the MPI has no twin of: numbers of 16 bits, and partitions whose results lie over each other's
// shares.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

class Algorithm {
 public:
  explicit Algorithm(const char* name) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_algorithm", name);
  }
  ~Algorithm() { MPI_Info_free(&info); }
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;

  MPI_Info info = MPI_INFO_NULL;
};

/// A format of `exponent` and `fraction` bits, by the words of IEEE 754.
struct Format {
  int exponent;
  int fraction;

  double value(std::uint16_t bits) const {
    const int top = (1 << exponent) - 1;
    const int e = bits >> fraction & top;
    const int f = bits & ((1 << fraction) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (e == top) return f != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
    const int bias = top / 2;
    if (e == 0) return sign * std::ldexp(f, 1 - bias - fraction);
    return sign * std::ldexp(f + (1 << fraction), e - bias - fraction);
  }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(((1 << exponent) - 1) << fraction); }
  /// The nearest number, the even one of two: found among all that there are, which ascend with their bits.
  std::uint16_t nearest(double exact) const {
    const std::uint16_t sign = std::signbit(exact) ? 0x8000 : 0;
    const double size = std::fabs(exact);
    std::uint16_t below = 0;
    for (int bit = 1 << 14; bit > 0; bit >>= 1) {
      const auto next = static_cast<std::uint16_t>(below | bit);
      if (next < infinity() && value(next) <= size) below = next;
    }
    const auto above = static_cast<std::uint16_t>(below + 1);
    // Past the greatest number the next one would be this far.
    const double step = value(below) - value(static_cast<std::uint16_t>(below - (below > 0 ? 1 : 0)));
    const double gap_above = above == infinity() ? value(below) + step - size : value(above) - size;
    const double gap_below = size - value(below);
    const bool up = gap_above < gap_below || (gap_above == gap_below && (below & 1) != 0);
    return static_cast<std::uint16_t>(sign | (up ? above : below));
  }
};

struct FloatKind {
  MPI_Datatype datatype;
  Format format;
};

class SmallFloats : public testing::TestWithParam<bool> {
 protected:
  FloatKind numbers() const {
    return GetParam() ? FloatKind{Partita_BFLOAT16, {8, 7}} : FloatKind{Partita_FLOAT16, {5, 10}};
  }
  std::vector<std::uint16_t> allreduce(const std::vector<std::uint16_t>& mine, MPI_Op op, const char* name) {
    const Algorithm algorithm(name);
    constexpr int partitions = 4;
    std::vector<std::uint16_t> out(mine.size());
    Partita_Request request = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Pallreduce_init(mine.data(), out.data(), partitions,
                                      static_cast<MPI_Count>(mine.size() / partitions), numbers().datatype, op,
                                      MPI_COMM_WORLD, algorithm.info, &request));
    EXPECT_OK(Partita_Start(&request));
    EXPECT_OK(Partita_Pready_range(0, partitions - 1, request));
    EXPECT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_OK(Partita_Request_free(&request));
    return out;
  }
  /// What rank `rank` gives: any bits at all.
  static std::vector<std::uint16_t> any_bits(int rank) {
    std::vector<std::uint16_t> bits(4096);
    Random random(job_seed(), static_cast<std::uint64_t>(rank));
    for (auto& each : bits) each = static_cast<std::uint16_t>(random.bits());
    return bits;
  }
  ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_P(SmallFloats, are_datatypes_of_two_bytes) {
  int size = 0;
  ASSERT_EQ(MPI_SUCCESS, MPI_Type_size(numbers().datatype, &size));
  EXPECT_EQ(2, size);
  std::vector<std::uint16_t> all(static_cast<std::size_t>(ranks()));
  const auto mine = static_cast<std::uint16_t>(rank() + 1);
  ASSERT_EQ(MPI_SUCCESS,
            MPI_Allgather(&mine, 1, numbers().datatype, all.data(), 1, numbers().datatype, MPI_COMM_WORLD));
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(r + 1, all[static_cast<std::size_t>(r)]);
}

/// Pairs of any bits, so with infinite ones and what is no number, beside floats that are rounded by search.
TEST_P(SmallFloats, are_computed_as_floats_and_rounded_to_the_nearest) {
  if (ranks() != 2) GTEST_SKIP() << "needs two ranks";
  const Format format = numbers().format;
  const auto a = any_bits(0), b = any_bits(1);
  const auto expect = [&](MPI_Op op, auto exact) {
    const auto got = allreduce(rank() == 0 ? a : b, op, "recursive_doubling");
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double x = format.value(a[i]), y = format.value(b[i]), z = static_cast<float>(exact(x, y));
      if (std::isnan(z)) {
        EXPECT_TRUE(std::isnan(format.value(got[i]))) << x << " and " << y;
      } else if (z == 0) {
        EXPECT_EQ(0, format.value(got[i])) << x << " and " << y;
      } else {
        const std::uint16_t wanted =
            std::isinf(z) ? static_cast<std::uint16_t>(format.infinity() | (z < 0 ? 0x8000 : 0)) : format.nearest(z);
        ASSERT_EQ(wanted, got[i]) << x << " and " << y << " give " << format.value(got[i]);
      }
    }
  };
  const auto or_nan = [](auto choose) {
    return [=](double x, double y) { return std::isnan(x) || std::isnan(y) ? x + y : choose(x, y); };
  };
  expect(MPI_SUM, [](double x, double y) { return x + y; });
  expect(MPI_PROD, [](double x, double y) { return x * y; });
  expect(MPI_MAX, or_nan([](double x, double y) { return std::fmax(x, y); }));
  expect(MPI_MIN, or_nan([](double x, double y) { return std::fmin(x, y); }));
}

TEST_P(SmallFloats, have_the_same_bits_on_all_ranks) {
  for (const char* name : {"recursive_doubling", "ring", "recursive_halving"}) {
    for (const MPI_Op op : {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN}) {
      const auto got = allreduce(any_bits(rank()), op, name);
      auto of_first = got;
      PMPI_Bcast(of_first.data(), static_cast<int>(of_first.size()), MPI_UINT16_T, 0, harness_comm());
      ASSERT_EQ(of_first, got) << name;
    }
  }
}

TEST_P(SmallFloats, have_no_bits_and_no_truth) {
  std::uint16_t in = 0, out = 0;
  Partita_Request request = PARTITA_REQUEST_NULL;
  for (const MPI_Op op : {MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MAXLOC, MPI_MINLOC}) {
    EXPECT_ERROR(
        Partita_Pallreduce_init(&in, &out, 1, 1, numbers().datatype, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
        MPI_ERR_OP, "does not go with argument datatype");
  }
}

void take_greater_bits(void* in, void* inout, int* length, MPI_Datatype*) {
  for (int i = 0; i < *length; ++i) {
    auto* to = static_cast<std::uint16_t*>(inout) + i;
    *to = std::max(*to, static_cast<std::uint16_t*>(in)[i]);
  }
}

TEST_P(SmallFloats, are_taken_by_operations_of_the_program) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(take_greater_bits, 1, &op);
  const std::vector<std::uint16_t> mine(8, static_cast<std::uint16_t>(0xffff - rank()));
  EXPECT_EQ(std::vector<std::uint16_t>(8, 0xffff), allreduce(mine, op, "recursive_doubling"));
  MPI_Op_free(&op);
}

INSTANTIATE_TEST_SUITE_P(Both, SmallFloats, testing::Bool(),
                         [](const auto& info) { return info.param ? "bfloat16" : "float16"; });

/// In place, with counts that differ: what one partition results in lies over what others send.
TEST(ReduceScatterInPlace, gives_each_rank_its_block_though_blocks_differ) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  constexpr int partitions = 3;
  for (const bool ascending : {true, false}) {
    std::vector<MPI_Count> counts;
    for (int r = 0; r < ranks(); ++r) counts.push_back(2 * (ascending ? r : ranks() - r));
    const auto own = static_cast<std::size_t>(counts[static_cast<std::size_t>(rank())]);
    const MPI_Count before = std::accumulate(counts.begin(), counts.begin() + rank(), MPI_Count{0});
    const auto all = static_cast<std::size_t>(partitions * std::accumulate(counts.begin(), counts.end(), MPI_Count{0}));
    for (const char* name : {"pairwise", "ring", "recursive_halving"}) {
      SCOPED_TRACE(name);
      const Algorithm algorithm(name);
      std::vector<int> data(all + 1);
      Partita_Request request = PARTITA_REQUEST_NULL;
      ASSERT_OK(Partita_Preduce_scatter_init(MPI_IN_PLACE, data.data(), partitions, counts.data(), MPI_INT, MPI_SUM,
                                             MPI_COMM_WORLD, algorithm.info, &request));
      for (int epoch = 0; epoch < 5; ++epoch) {
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = (rank() + 1) * (static_cast<int>(i) + 1000 * epoch);
        ASSERT_OK(Partita_Start(&request));
        for (int p = partitions - 1; p >= 0; --p) {
          step("a mark");
          ASSERT_OK(Partita_Pready(p, request));
          if (own > 0 && p > 0) {
            // Its result may not be written yet: partition 0 has not been read.
            int arrived = 1;
            ASSERT_OK(Partita_Parrived(request, p, &arrived));
            if (ranks() > 1) {
              ASSERT_EQ(0, arrived);
            }
          }
        }
        ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
        for (std::size_t i = 0; i < partitions * own; ++i) {
          const int place = static_cast<int>(i) + partitions * static_cast<int>(before);
          ASSERT_EQ(ranks() * (ranks() + 1) / 2 * (place + 1000 * epoch), data[i]) << "element " << i;
        }
      }
      ASSERT_OK(Partita_Request_free(&request));
    }
  }
}

}  // namespace
}  // namespace partita::test
