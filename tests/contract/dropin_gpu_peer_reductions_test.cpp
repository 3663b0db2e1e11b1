// The MPI's blocking reductions by peer memory, on the fake GPU: which go so, and that their results are right.
#include <gtest/gtest.h>
#include <mpi.h>

#include <numeric>
#include <random>
#include <vector>

#include "contract/peer_ways.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// The sum over all ranks of value(rank, 0, i), for `count` places from `first` on.
Ints sums(int count, int first = 0) {
  Ints all(at(count));
  for (int i = 0; i < count; ++i) {
    for (int from = 0; from < ranks(); ++from) all[at(i)] += value(from, 0, first + i);
  }
  return all;
}
Ints addends(int count) {
  Ints all(at(count));
  for (int i = 0; i < count; ++i) all[at(i)] = value(rank(), 0, i);
  return all;
}

/// Also more than what is reduced at once where a result has no place, and shares that differ.
TEST(DropinGpuPeerReductions, reduce_and_allreduce) {
  for (const int count : {plenty, 4 * (1 << 18) * 2 + 7}) {
    const Ints own = addends(count);
    const Ints all = sums(count);
    PlacedInts in(Memory::gpu, own);
    PlacedInts out(Memory::gpu, Ints(at(count), untouched));
    expect_way(Way::peers,
               [&] { EXPECT_OK(MPI_Allreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); });
    EXPECT_TRUE(out.get() == all);
    out.set(own);
    expect_way(Way::peers,
               [&] { EXPECT_OK(MPI_Allreduce(MPI_IN_PLACE, out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); });
    EXPECT_TRUE(out.get() == all);
    for (int root = 0; root < ranks(); ++root) {
      for (const bool in_place : {false, true}) {
        const bool is_root = rank() == root;
        out.set(in_place && is_root ? own : Ints(at(count), untouched));
        const Ints before = out.get();
        expect_way(Way::peers, [&] {
          EXPECT_OK(MPI_Reduce(in_place && is_root ? MPI_IN_PLACE : in.data(), is_root ? out.data() : nullptr, count,
                               MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        });
        EXPECT_TRUE(out.get() == (is_root ? all : before));
      }
    }
    EXPECT_TRUE(in.get() == own);
  }
}

TEST(DropinGpuPeerReductions, reduce_scatter) {
  std::mt19937 random = common_random();
  for (int round = 0; round < 5; ++round) {
    Ints counts;
    for (int peer = 0; peer < ranks(); ++peer)
      counts.push_back(random() % 4 == 0 ? 0 : static_cast<int>(random() % 900));
    counts.back() = plenty;
    const int total = std::accumulate(counts.begin(), counts.end(), 0);
    const int first = std::accumulate(counts.begin(), counts.begin() + rank(), 0);
    PlacedInts in(Memory::gpu, addends(total));
    PlacedInts out(Memory::gpu, Ints(at(plenty + 1), untouched));
    expect_way(Way::peers, [&] {
      EXPECT_OK(MPI_Reduce_scatter(in.data(), out.data(), counts.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    });
    Ints expected = sums(counts[at(rank())], first);
    expected.resize(at(plenty + 1), untouched);
    EXPECT_EQ(out.get(), expected);
  }
  PlacedInts in(Memory::gpu, addends(plenty * ranks()));
  PlacedInts out(Memory::gpu, Ints(plenty, untouched));
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Reduce_scatter_block(in.data(), out.data(), plenty, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  });
  EXPECT_EQ(out.get(), sums(plenty, plenty * rank()));
  // In place the result lies where others read.
  expect_way(Way::host, [&] {
    EXPECT_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, in.data(), plenty, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  });
  Ints result = in.get();
  result.resize(plenty);
  EXPECT_EQ(result, sums(plenty, plenty * rank()));
}

/// All ranks have the same bits, whatever the order in which the values were added.
TEST(DropinGpuPeerReductions, allreduce_of_floats_gives_all_ranks_the_same) {
  const FakeGpuBuffer in(mapped, plenty * sizeof(double));
  const FakeGpuBuffer out(mapped, plenty * sizeof(double));
  auto* const addend = reinterpret_cast<double*>(in.data());
  auto* const sum = reinterpret_cast<double*>(out.data());
  for (int i = 0; i < plenty; ++i) addend[i] = 1.0 / (3 * i + rank() + 1);
  expect_way(Way::peers, [&] { EXPECT_OK(MPI_Allreduce(addend, sum, plenty, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)); });
  std::vector<double> of_first(sum, sum + plenty);
  ASSERT_OK(MPI_Bcast(of_first.data(), plenty, MPI_DOUBLE, 0, MPI_COMM_WORLD));
  for (int i = 0; i < plenty; ++i) {
    ASSERT_EQ(sum[i], of_first[at(i)]) << i;
    double expected = 0;
    for (int from = 0; from < ranks(); ++from) expected += 1.0 / (3 * i + from + 1);
    ASSERT_NEAR(sum[i], expected, 1e-12) << i;
  }
}

TEST(DropinGpuPeerReductions, allreduce_finds_the_place_of_the_least) {
  Ints own;
  Ints expected;
  for (int i = 0; i < plenty; ++i) {
    own.insert(own.end(), {(rank() + i) % ranks(), rank()});
    expected.insert(expected.end(), {0, (ranks() - i % ranks()) % ranks()});
  }
  PlacedInts buffer(Memory::gpu, own);
  expect_way(Way::peers, [&] {
    EXPECT_OK(MPI_Allreduce(MPI_IN_PLACE, buffer.data(), plenty, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD));
  });
  EXPECT_EQ(buffer.get(), expected);
}

TEST(DropinGpuPeerReductions, operations_of_the_program_go_through_host_memory) {
  MPI_Op larger = MPI_OP_NULL;
  ASSERT_OK(MPI_Op_create(keep_larger, 1, &larger));
  PlacedInts in(Memory::gpu, Ints(plenty, rank()));
  PlacedInts out(Memory::gpu, Ints(plenty, untouched));
  expect_way(Way::host,
             [&] { EXPECT_OK(MPI_Allreduce(in.data(), out.data(), plenty, MPI_INT, larger, MPI_COMM_WORLD)); });
  EXPECT_EQ(out.get(), Ints(plenty, ranks() - 1));
  ASSERT_OK(MPI_Op_free(&larger));
}

}  // namespace
}  // namespace partita::test
