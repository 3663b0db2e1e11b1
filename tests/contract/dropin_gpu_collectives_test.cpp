// The MPI's own collectives on GPU memory, in each of their forms: an MPI that knows none of it, with the drop-in in
// front. Each is made on host memory too, with other buffers, and the two must agree, in the bytes between the elements
// as well.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "contract/mpi_collective_cases.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// The parameters are an entry of mpi_collectives() and a form.
class GpuCollective : public testing::TestWithParam<std::tuple<std::size_t, int>> {
 protected:
  void SetUp() override {
    ASSERT_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped_));
    ASSERT_OK(MPI_Type_commit(&gapped_));
  }
  void TearDown() override { MPI_Type_free(&gapped_); }

  CollectiveArguments arguments(int count, bool has_gaps, int root) const {
    CollectiveArguments made;
    made.count = count;
    made.root = root;
    made.type = has_gaps ? gapped_ : MPI_INT;
    made.spread = has_gaps ? 2 : 1;
    int place = 0;
    for (int each = 0; each < ranks(); ++each) {
      made.counts.push_back(count / 2 + each);
      made.places.push_back(place += 1);
      made.bytes.push_back(place * made.spread * static_cast<int>(sizeof(int)));
      place += count / 2 + each;
      made.types.push_back(made.type);
      made.each_own.push_back(count / 2 + rank());
      made.own_places.push_back(each * (count / 2 + rank() + 1));
      made.own_bytes.push_back(made.own_places.back() * made.spread * static_cast<int>(sizeof(int)));
    }
    return made;
  }
  /// Room for whatever the arguments say.
  static std::size_t size_of(const CollectiveArguments& of) {
    return static_cast<std::size_t>(of.spread * (ranks() + 1) * (of.count + ranks() + 2));
  }
  /// One call, out of and into such memories. Returns what is in `out` afterwards. A persistent one has other values at
  /// its first start.
  Ints call(const MpiCollective& collective, CollectiveArguments of, Memory in_memory, Memory out_memory,
            bool in_place) {
    const int size = static_cast<int>(size_of(of));
    const Ints in_values = counting(size, 1000 * rank());
    const Ints out_values = counting(size, -1000 * (rank() + 1));
    const bool starts_twice = form() == Form::persistent;
    PlacedInts in(in_memory, starts_twice ? counting(size, 5) : in_values);
    PlacedInts out(out_memory, starts_twice ? counting(size, 6) : out_values);
    of.in = in_place ? MPI_IN_PLACE : in.data();
    of.out = out.data();
    make(collective, form(), of, [&] {
      in.set(in_values);
      out.set(out_values);
    });
    EXPECT_EQ(in.get(), in_values);
    return out.get();
  }
  void expect_alike(const MpiCollective& collective, const CollectiveArguments& of, bool in_place) {
    SCOPED_TRACE(std::string(collective.name) + (in_place ? ", in place" : "") + ", " + std::to_string(of.count) +
                 " elements" + (of.spread > 1 ? " with gaps" : "") + ", root " + std::to_string(of.root));
    const Ints expected = call(collective, of, Memory::host, Memory::host, in_place);
    EXPECT_EQ(call(collective, of, Memory::gpu, Memory::gpu, in_place), expected);
    // Ranks whose memories differ.
    const Memory mixed = rank() % 2 == 0 ? Memory::gpu : Memory::host;
    EXPECT_EQ(call(collective, of, mixed, mixed, in_place), expected);
    if (in_place) return;
    EXPECT_EQ(call(collective, of, Memory::host, Memory::gpu, in_place), expected);
    EXPECT_EQ(call(collective, of, Memory::gpu, Memory::host, in_place), expected);
  }

  static const MpiCollective& collective() { return mpi_collectives()[std::get<0>(GetParam())]; }
  static Form form() { return Form{std::get<1>(GetParam())}; }

  MPI_Datatype gapped_ = MPI_DATATYPE_NULL;
};

TEST_P(GpuCollective, gives_what_it_gives_on_host_memory) {
#ifdef OPEN_MPI
  if (ranks() == 1 && std::string(collective().name) == "Alltoallw")
    GTEST_SKIP() << "Open MPI (4.1, 5.0) takes the displacements of one rank alone for elements, not bytes";
#endif
  for (const int count : {1, 7, 2'000}) {
    for (const bool has_gaps : {false, true}) {
      const CollectiveArguments of = arguments(count, has_gaps, count % ranks());
      expect_alike(collective(), of, false);
      if (collective().has_place) expect_alike(collective(), of, true);
    }
  }
}

std::string name_of(const testing::TestParamInfo<GpuCollective::ParamType>& info) {
  static const char* const names[] = {"", "_nonblocking", "_persistent"};
  return mpi_collectives()[std::get<0>(info.param)].name + std::string(names[std::get<1>(info.param)]);
}
INSTANTIATE_TEST_SUITE_P(All, GpuCollective,
                         testing::Combine(testing::Range(std::size_t{0}, mpi_collectives().size()),
                                          testing::Range(0, forms)),
                         name_of);

/// Where a rooted collective is in place, only the root's call is.
TEST(GpuCollectives, are_made_in_place_at_the_root) {
  const auto size = static_cast<std::size_t>(ranks());
  PlacedInts all(Memory::gpu, rank() == 0 ? counting(ranks(), 10) : Ints(size, -1));
  PlacedInts one(Memory::gpu, {10 + rank()});
  const void* const out = rank() == 0 ? MPI_IN_PLACE : one.data();
  ASSERT_OK(MPI_Gather(out, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_EQ(all.get(), rank() == 0 ? counting(ranks(), 10) : Ints(size, -1));
  PlacedInts sum(Memory::gpu, {10});
  ASSERT_OK(MPI_Reduce(out, rank() == 0 ? sum.data() : nullptr, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
  EXPECT_EQ(sum.get(), Ints{rank() == 0 ? 10 * ranks() + ranks() * (ranks() - 1) / 2 : 10});
  void* const in = rank() == 0 ? MPI_IN_PLACE : one.data();
  ASSERT_OK(MPI_Scatter(all.data(), 1, MPI_INT, in, 1, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_EQ(one.get(), Ints{10 + rank()});
}

/// The ranks of a line: its ends have one neighbour, and what would come from the other stays as it is.
TEST(GpuCollectives, of_neighbourhoods_leave_what_nobody_sends) {
  const int sizes[] = {ranks()};
  const int periods[] = {0};
  MPI_Comm line = MPI_COMM_NULL;
  ASSERT_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &line));
  const Ints expected{rank() > 0 ? rank() - 1 : -1, rank() < ranks() - 1 ? rank() + 1 : -2};
  const Ints counts{1, 1};
  const Ints places{0, 1};
  const MPI_Aint bytes[] = {0, sizeof(int)};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  PlacedInts one(Memory::gpu, {rank()});
  PlacedInts two(Memory::gpu, {rank(), rank()});
  const auto expect = [&](auto call) {
    PlacedInts in(Memory::gpu, {-1, -2});
    EXPECT_OK(call(in.data()));
    EXPECT_EQ(in.get(), expected);
  };
  const auto expect_begun = [&](auto begin) {
    expect([&](int* in) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = begin(in, &request);
      return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    });
  };
  expect([&](int* in) { return MPI_Neighbor_allgather(one.data(), 1, MPI_INT, in, 1, MPI_INT, line); });
  expect([&](int* in) {
    return MPI_Neighbor_allgatherv(one.data(), 1, MPI_INT, in, counts.data(), places.data(), MPI_INT, line);
  });
  expect([&](int* in) { return MPI_Neighbor_alltoall(two.data(), 1, MPI_INT, in, 1, MPI_INT, line); });
  expect([&](int* in) {
    return MPI_Neighbor_alltoallv(two.data(), counts.data(), places.data(), MPI_INT, in, counts.data(), places.data(),
                                  MPI_INT, line);
  });
  expect([&](int* in) {
    return MPI_Neighbor_alltoallw(two.data(), counts.data(), bytes, types, in, counts.data(), bytes, types, line);
  });
  expect_begun([&](int* in, MPI_Request* made) {
    return MPI_Ineighbor_allgather(one.data(), 1, MPI_INT, in, 1, MPI_INT, line, made);
  });
  expect_begun([&](int* in, MPI_Request* made) {
    return MPI_Ineighbor_allgatherv(one.data(), 1, MPI_INT, in, counts.data(), places.data(), MPI_INT, line, made);
  });
  expect_begun([&](int* in, MPI_Request* made) {
    return MPI_Ineighbor_alltoall(two.data(), 1, MPI_INT, in, 1, MPI_INT, line, made);
  });
  expect_begun([&](int* in, MPI_Request* made) {
    return MPI_Ineighbor_alltoallv(two.data(), counts.data(), places.data(), MPI_INT, in, counts.data(), places.data(),
                                   MPI_INT, line, made);
  });
  expect_begun([&](int* in, MPI_Request* made) {
    return MPI_Ineighbor_alltoallw(two.data(), counts.data(), bytes, types, in, counts.data(), bytes, types, line,
                                   made);
  });
  ASSERT_OK(MPI_Comm_free(&line));
}

/// Between groups a root has no data of its own in the other group's calls.
TEST(GpuCollectives, move_between_groups) {
  if (ranks() < 2) GTEST_SKIP() << "needs two groups";
  const bool is_first = rank() == 0;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &group));
  ASSERT_OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 7, &between));
  const int root = is_first ? MPI_ROOT : 0;
  PlacedInts value(Memory::gpu, {is_first ? 5 : 0});
  ASSERT_OK(MPI_Bcast(value.data(), 1, MPI_INT, root, between));
  EXPECT_EQ(value.get(), Ints{5});
  PlacedInts all(Memory::gpu, Ints(static_cast<std::size_t>(ranks()), -1));
  PlacedInts own(Memory::gpu, {rank()});
  ASSERT_OK(MPI_Gather(own.data(), 1, MPI_INT, all.data(), 1, MPI_INT, root, between));
  Ints gathered(static_cast<std::size_t>(ranks()), -1);
  for (int other = 1; is_first && other < ranks(); ++other) gathered[static_cast<std::size_t>(other - 1)] = other;
  EXPECT_EQ(all.get(), gathered);
  ASSERT_OK(MPI_Comm_free(&between));
  ASSERT_OK(MPI_Comm_free(&group));
}

/// Operations of the program's run on the host, on host memory.
TEST(GpuCollectives, run_operations_of_the_program) {
  MPI_Op larger = MPI_OP_NULL;
  ASSERT_OK(MPI_Op_create(keep_larger, 1, &larger));
  PlacedInts in(Memory::gpu, {rank(), -rank()});
  PlacedInts out(Memory::gpu, {-1, -1});
  ASSERT_OK(MPI_Allreduce(in.data(), out.data(), 2, MPI_INT, larger, MPI_COMM_WORLD));
  EXPECT_EQ(out.get(), (Ints{ranks() - 1, 0}));
  ASSERT_OK(MPI_Op_free(&larger));
}

/// The buffer is MPI_BOTTOM, and the datatype says where in memory the elements lie.
TEST(GpuCollectives, take_absolute_addresses) {
  PlacedInts memory(Memory::gpu, rank() == 0 ? Ints{1, 2, 3} : Ints{0, 0, 0});
  MPI_Aint address = 0;
  ASSERT_OK(MPI_Get_address(memory.data(), &address));
  const int lengths[] = {1, 1};
  const MPI_Aint addresses[] = {address, address + static_cast<MPI_Aint>(2 * sizeof(int))};
  MPI_Datatype absolute = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &absolute));
  ASSERT_OK(MPI_Type_commit(&absolute));
  ASSERT_OK(MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD));
  EXPECT_EQ(memory.get(), (rank() == 0 ? Ints{1, 2, 3} : Ints{1, 0, 3}));
  ASSERT_OK(MPI_Type_free(&absolute));
}

/// What means nothing on this rank, or holds nothing, may lie anywhere and be of any datatype.
TEST(GpuCollectives, look_at_nothing_that_means_nothing) {
  PlacedInts memory(Memory::gpu, {7});
  int on_host = 1;
  int sum = 0;
  Ints on_host_of_all(static_cast<std::size_t>(ranks()));
  EXPECT_OK(MPI_Bcast(memory.data(), 0, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Reduce(&on_host, rank() == 0 ? &sum : memory.data(), 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
  EXPECT_OK(MPI_Gather(&on_host, 1, MPI_INT, rank() == 0 ? on_host_of_all.data() : memory.data(), rank() == 0 ? 1 : 5,
                       rank() == 0 ? MPI_INT : MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
  const Ints none(static_cast<std::size_t>(ranks()), 0);
  EXPECT_OK(MPI_Alltoallv(memory.data(), none.data(), none.data(), MPI_INT, &on_host, none.data(), none.data(), MPI_INT,
                          MPI_COMM_WORLD));
  EXPECT_EQ(memory.get(), Ints{7});
}

/// A mistake is the MPI's to find, with the MPI's code.
TEST(GpuCollectives, leave_mistakes_to_the_mpi) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts memory(Memory::gpu, {7});
  EXPECT_EQ(class_of(MPI_Bcast(memory.data(), 1, MPI_INT, ranks(), MPI_COMM_WORLD)), MPI_ERR_ROOT);
  EXPECT_EQ(class_of(MPI_Bcast(memory.data(), -1, MPI_INT, 0, MPI_COMM_WORLD)), MPI_ERR_COUNT);
  EXPECT_EQ(class_of(MPI_Bcast(memory.data(), 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)), MPI_ERR_TYPE);
  EXPECT_EQ(memory.get(), Ints{7});
  harness_barrier();
}

#if MPI_VERSION >= 4
TEST(GpuCollectives, take_large_counts) {
  PlacedInts memory(Memory::gpu, {rank() == 0 ? 7 : 0});
  ASSERT_OK(MPI_Bcast_c(memory.data(), 1, MPI_INT, 0, MPI_COMM_WORLD));
  EXPECT_EQ(memory.get(), Ints{7});
}
#endif

}  // namespace
}  // namespace partita::test
