// Which of the MPI's own calls Partita makes: those on GPU memory, where the job is GPU-aware, and no others. On the
// fake GPU, which counts what streams are asked for.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>

#include "contract/gpu_aware_job.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// How many copies of streams an exchange with oneself takes.
template <class Buffer>
std::uint64_t copies_of(Buffer out, Buffer in) {
  const std::uint64_t before = FakeGpu::instance().operations();
  EXPECT_OK(MPI_Sendrecv(out, 8, MPI_BYTE, rank(), 1, in, 8, MPI_BYTE, rank(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return FakeGpu::instance().operations() - before;
}

TEST(DropinGpuRoute, is_partitas_for_gpu_memory_alone) {
  const FakeGpuBuffer out(mapped, 8);
  const FakeGpuBuffer in(mapped, 8);
  std::memcpy(out.data(), "message", 8);
  EXPECT_EQ(copies_of(out.data(), in.data()), is_off() ? 0 : 2);
  EXPECT_STREQ(reinterpret_cast<const char*>(in.data()), "message");
  const std::uint64_t before = FakeGpu::instance().operations();
  ASSERT_OK(MPI_Allgather(out.data(), 8, MPI_BYTE, in.data(), 8, MPI_BYTE, MPI_COMM_SELF));
  EXPECT_EQ(FakeGpu::instance().operations() - before, is_off() ? 0 : 2);
  const std::uint64_t before_begun = FakeGpu::instance().operations();
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Iallgather(out.data(), 8, MPI_BYTE, in.data(), 8, MPI_BYTE, MPI_COMM_SELF, &request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(FakeGpu::instance().operations() - before_begun, is_off() ? 0 : 2);
  MPI_Request messages[2];
  ASSERT_OK(MPI_Recv_init(in.data(), 8, MPI_BYTE, rank(), 2, MPI_COMM_WORLD, &messages[0]));
  ASSERT_OK(MPI_Send_init(out.data(), 8, MPI_BYTE, rank(), 2, MPI_COMM_WORLD, &messages[1]));
  for (int start = 0; start < 2; ++start) {
    const std::uint64_t before_start = FakeGpu::instance().operations();
    ASSERT_OK(MPI_Startall(2, messages));
    ASSERT_OK(MPI_Waitall(2, messages, MPI_STATUSES_IGNORE));
    EXPECT_EQ(FakeGpu::instance().operations() - before_start, is_off() ? 0 : 2);
  }
  for (MPI_Request& each : messages) ASSERT_OK(MPI_Request_free(&each));
#if MPI_VERSION >= 4
  ASSERT_OK(
      MPI_Allgather_init(out.data(), 8, MPI_BYTE, in.data(), 8, MPI_BYTE, MPI_COMM_SELF, MPI_INFO_NULL, &request));
  for (int start = 0; start < 2; ++start) {
    const std::uint64_t before_start = FakeGpu::instance().operations();
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(FakeGpu::instance().operations() - before_start, is_off() ? 0 : 2);
  }
  ASSERT_OK(MPI_Request_free(&request));
#endif
  char on_host[2][8] = {"message", ""};
  EXPECT_EQ(copies_of(on_host[0], on_host[1]), 0);
  EXPECT_STREQ(on_host[1], "message");
}

TEST(DropinGpuRoute, of_a_nonblocking_collective_ends_with_the_copy_alone) {
  if (is_off()) GTEST_SKIP() << "the MPI's own";
  const FakeGpuBuffer in(mapped, 8);
  FakeGpu::instance().hold_all(true);
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_OK(MPI_Iallgather("message", 8, MPI_BYTE, in.data(), 8, MPI_BYTE, MPI_COMM_SELF, &request));
  for (int look = 0; look < 20; ++look) {
    int complete = 1;
    EXPECT_OK(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
    EXPECT_EQ(complete, 0);
  }
  FakeGpu::instance().hold_all(false);
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_STREQ(reinterpret_cast<const char*>(in.data()), "message");
}

/// A GPU that fails fails the call, or the request, which is gone. Its kernels do: elements have gaps.
TEST(DropinGpuRoute, of_a_nonblocking_collective_may_fail_alone) {
  if (is_off()) GTEST_SKIP() << "the MPI's own";
  ErrorsReturn returned(MPI_COMM_SELF);
  MPI_Datatype gapped = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
  ASSERT_OK(MPI_Type_commit(&gapped));
  const FakeGpuBuffer memory(mapped, 4 * sizeof(int));
  int on_host[4] = {1, 2, 3, 4};
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Iallgather(on_host, 2, gapped, memory.data(), 2, gapped, MPI_COMM_SELF, &request));
  FakeGpu::instance().fail(mapped);
  EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "MPI_Wait", "illegal access");
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_ERROR(MPI_Iallgather(memory.data(), 2, gapped, on_host, 2, gapped, MPI_COMM_SELF, &request), MPI_ERR_OTHER,
               "MPI_Iallgather", "illegal access");
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  FakeGpu::instance().mend(mapped);
  ASSERT_OK(MPI_Type_free(&gapped));
}

/// The fake GPU's memory is host memory in truth, which the MPI takes.
TEST(DropinGpuRoute, is_the_mpis_for_collectives_where_that_is_off) {
  if (!is_off()) GTEST_SKIP() << "the job is GPU-aware: see dropin_gpu_aware";
  const FakeGpuBuffer buffer(mapped, 8);
  std::memcpy(buffer.data(), rank() == 0 ? "message" : "       ", 8);
  ASSERT_OK(MPI_Bcast(buffer.data(), 8, MPI_BYTE, 0, MPI_COMM_WORLD));
  EXPECT_STREQ(reinterpret_cast<const char*>(buffer.data()), "message");
}

}  // namespace
}  // namespace partita::test
