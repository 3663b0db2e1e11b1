// Persistent collectives of an MPI that has them, on GPU memory: each start is staged. What each of them gives is
// tested with the other forms (dropin_gpu_collectives).
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <algorithm>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

#if MPI_VERSION >= 4
/// A sum over all ranks, of which this one gives its rank and more with each epoch.
class GpuSum : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_OK(MPI_Request_free(&request));
    EXPECT_EQ(request, MPI_REQUEST_NULL);
  }
  void make(MPI_Op op = MPI_SUM) {
    ASSERT_OK(MPI_Allreduce_init(in.data(), out.data(), 2, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  }
  void fill(int epoch) {
    in.set({rank() + epoch, 1});
    out.set({-1, -1});
  }
  void expect_sum(int epoch) { EXPECT_EQ(out.get(), (Ints{ranks() * (ranks() - 1) / 2 + ranks() * epoch, ranks()})); }
  void run(int epoch) {
    fill(epoch);
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect_sum(epoch);
  }

  const Memory memory = rank() % 2 == 0 ? Memory::gpu : Memory::host;  // ranks differ
  PlacedInts in{memory, {-1, -1}};
  PlacedInts out{memory, {-1, -1}};
  MPI_Request request = MPI_REQUEST_NULL;
};

TEST_F(GpuSum, keeps_its_request_start_after_start) {
  make();
  const MPI_Request made = request;
  for (int epoch = 1; epoch <= 3; ++epoch) run(epoch);
  EXPECT_EQ(request, made);
}

/// A match finds the MPI's collective behind the request of ours.
TEST_F(GpuSum, is_matched_between_two_starts) {
  make();
  run(1);
  int is_matched = 1;
  ASSERT_OK(MPIX_Is_matched(request, &is_matched));
  EXPECT_EQ(is_matched, 0);
  ASSERT_OK(MPIX_Match(&request));
  ASSERT_OK(MPIX_Is_matched(request, &is_matched));
  EXPECT_EQ(is_matched, 1);
  run(2);
}

TEST_F(GpuSum, is_not_matched_while_it_is_active) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  make();
  fill(1);
  ASSERT_OK(MPI_Start(&request));
  EXPECT_ERROR(MPIX_Match(&request), MPI_ERR_REQUEST, "MPIX_Match", "active");
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  expect_sum(1);
}

/// The program may free its operation once the request is made; it runs on the host.
TEST_F(GpuSum, keeps_operations_of_the_program) {
  MPI_Op sum = MPI_OP_NULL;
  const auto function = [](void* given, void* in_and_out, int* count, MPI_Datatype*) {
    std::transform(static_cast<int*>(given), static_cast<int*>(given) + *count, static_cast<int*>(in_and_out),
                   static_cast<int*>(in_and_out), [](int a, int b) { return a + b; });
  };
  ASSERT_OK(MPI_Op_create(function, 1, &sum));
  make(sum);
  ASSERT_OK(MPI_Op_free(&sum));
  for (int epoch = 1; epoch <= 2; ++epoch) run(epoch);
}

/// MPI-4, section 6.13: an active one is neither freed nor cancelled.
TEST_F(GpuSum, is_completed_before_it_is_freed) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  make();
  fill(1);
  if (rank() != 0) harness_barrier();
  ASSERT_OK(MPI_Start(&request));
  if (rank() == 0) {
    EXPECT_ERROR(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "active already", "MPI_Allreduce_init");
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "cannot be cancelled");
    if (ranks() > 1) {
      EXPECT_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "MPI_Allreduce_init");
    }
    harness_barrier();
  }
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  expect_sum(1);
}

/// Started together with the MPI's own, in any order, and completed in one call.
TEST_F(GpuSum, stands_among_others) {
  make();
  int on_host = 1;
  int sum_on_host = -1;
  PlacedInts told(Memory::gpu, {-1});
  MPI_Request requests[3] = {MPI_REQUEST_NULL, request, MPI_REQUEST_NULL};
  ASSERT_OK(
      MPI_Allreduce_init(&on_host, &sum_on_host, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
  ASSERT_OK(MPI_Bcast_init(told.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]));
  for (int epoch = 1; epoch <= 2; ++epoch) {
    fill(epoch);
    told.set({rank() == 0 ? epoch : -1});
    ASSERT_OK(MPI_Startall(3, requests));
    ASSERT_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    expect_sum(epoch);
    EXPECT_EQ(sum_on_host, ranks());
    EXPECT_EQ(told.get(), Ints{epoch});
  }
  EXPECT_OK(MPI_Request_free(&requests[0]));
  EXPECT_OK(MPI_Request_free(&requests[2]));
}

TEST(GpuPersistentCollectives, of_neighbourhoods_leave_what_nobody_sends) {
  const int sizes[] = {ranks()};
  const int periods[] = {0};
  MPI_Comm line = MPI_COMM_NULL;
  ASSERT_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &line));
  PlacedInts out(Memory::gpu, {-1, -1});
  PlacedInts in(Memory::gpu, {-1, -2});
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Neighbor_alltoall_init(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, line, MPI_INFO_NULL, &request));
  for (int epoch = 0; epoch < 2; ++epoch) {
    const int value = 10 * epoch + rank();
    out.set({value, value});
    in.set({-1, -2});
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(in.get(), (Ints{rank() > 0 ? value - 1 : -1, rank() < ranks() - 1 ? value + 1 : -2}));
  }
  EXPECT_OK(MPI_Request_free(&request));
  ASSERT_OK(MPI_Comm_free(&line));
}

/// Between groups they are the MPI's for good.
TEST(GpuPersistentCollectives, move_between_groups_and_are_not_matched) {
  if (ranks() < 2) GTEST_SKIP() << "needs two groups";
  ErrorsReturn returned(MPI_COMM_WORLD);
  const bool is_first = rank() == 0;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &group));
  ASSERT_OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 7, &between));
  ErrorsReturn returned_between(between);
  PlacedInts value(Memory::gpu, {-1});
  MPI_Request request = MPI_REQUEST_NULL;
  const int root = is_first ? MPI_ROOT : 0;
  ASSERT_OK(MPI_Bcast_init_c(value.data(), 1, MPI_INT, root, between, MPI_INFO_NULL, &request));
  for (int epoch = 1; epoch <= 2; ++epoch) {
    value.set({is_first ? epoch : -1});
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(value.get(), Ints{epoch});
  }
  EXPECT_ERROR(MPIX_Match(&request), MPI_ERR_COMM, "MPIX_Match", "intercommunicator");
  EXPECT_OK(MPI_Request_free(&request));
  ASSERT_OK(MPI_Comm_free(&group));
}

TEST(GpuPersistentCollectives, leave_mistakes_to_the_mpi) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts memory(Memory::gpu, {7});
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_EQ(class_of(MPI_Bcast_init(memory.data(), 1, MPI_INT, ranks(), MPI_COMM_WORLD, MPI_INFO_NULL, &request)),
            MPI_ERR_ROOT);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_ERROR(MPI_Bcast_init(memory.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, nullptr), MPI_ERR_ARG,
               "MPI_Bcast_init", "request");
  harness_barrier();
}
#else
TEST(GpuPersistentCollectives, are_partitas_where_the_mpi_has_none) {
  GTEST_SKIP() << "their own tests: stream_collectives";
}
#endif

}  // namespace
}  // namespace partita::test
