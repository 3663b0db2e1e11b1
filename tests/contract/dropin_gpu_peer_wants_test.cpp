// A rank that finds no memory in a collective by peer memory, at each of its allocations: no other rank waits for it
// without end. Where it has an error the others may have one, too, unless their part has ended before. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "contract/peer_ways.hpp"
#include "support/allocations.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

constexpr long most_allocations = 500;

/// The largest of all ranks.
int largest(int own) {
  int all = 0;
  PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MAX, harness_comm());
  return all;
}

/// `call(in, out, comm)` on a communicator that has its board, where each allocation of one rank fails in turn.
template <class Call>
void expect_an_end(Call call) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const int victim = ranks() - 1;
  int made_by_mpi = 0;
  for (long first = 1;; ++first) {
    ASSERT_LT(first, most_allocations);
    SCOPED_TRACE("allocation " + std::to_string(first));
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    bool failed = false;
    {
      const ErrorsReturn returned(comm);
      PlacedInts in(Memory::gpu, Ints(at(plenty * ranks()), 1));
      PlacedInts out(Memory::gpu, Ints(at(plenty * ranks()), untouched));
      EXPECT_OK(call(in.data(), out.data(), comm));
      const Ints expected = out.get();
      out.set(Ints(at(plenty * ranks()), untouched));
      const std::uint64_t before = FakeGpu::instance().copies_with_host();
      if (rank() == victim) fail_allocations_of_this_thread(first);
      const int code = call(in.data(), out.data(), comm);
      if (rank() == victim) failed = !end_failing();
      const bool is_error_there = largest(rank() == victim && code != MPI_SUCCESS ? 1 : 0) != 0;
      if (code == MPI_SUCCESS) {
        EXPECT_EQ(out.get(), expected);
      }
      EXPECT_TRUE(is_error_there || code == MPI_SUCCESS) << "an error of the others alone: " << sentence_of(code);
      if (!is_error_there) {
        made_by_mpi += FakeGpu::instance().copies_with_host() > before ? 1 : 0;
        EXPECT_OK(call(in.data(), out.data(), comm)) << "the next one";
      }
    }
    harness_barrier();
    ASSERT_OK(MPI_Comm_free(&comm));
    if (largest(failed ? 1 : 0) == 0) break;
  }
  EXPECT_GT(made_by_mpi, 0) << "some wants are a no, and the MPI makes the call";
}

TEST(DropinGpuPeerWants, of_alltoall_part_no_ranks) {
  expect_an_end([](const int* in, int* out, MPI_Comm comm) {
    return MPI_Alltoall(in, plenty, MPI_INT, out, plenty, MPI_INT, comm);
  });
}

TEST(DropinGpuPeerWants, of_alltoallv_part_no_ranks) {
  const Ints counts(at(ranks()), plenty);
  Ints places;
  for (int peer = 0; peer < ranks(); ++peer) places.push_back(peer * plenty);
  expect_an_end([&](const int* in, int* out, MPI_Comm comm) {
    return MPI_Alltoallv(in, counts.data(), places.data(), MPI_INT, out, counts.data(), places.data(), MPI_INT, comm);
  });
}

TEST(DropinGpuPeerWants, of_allreduce_part_no_ranks) {
  expect_an_end(
      [](const int* in, int* out, MPI_Comm comm) { return MPI_Allreduce(in, out, plenty, MPI_INT, MPI_SUM, comm); });
}

}  // namespace
}  // namespace partita::test
