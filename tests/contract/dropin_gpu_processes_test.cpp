// GPU memory on communicators of spawned and connected processes: the MPI moves it, out of host memory.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

constexpr const char* child_program = PARTITEST_CHILD;

/// Nothing that happens while it lives names GPU memory to another process.
class NothingNamed {
 public:
  ~NothingNamed() {
    EXPECT_EQ(FakeGpu::instance().exports(), exports_);
    EXPECT_EQ(FakeGpu::instance().imports(), imports_);
  }

 private:
  const std::uint64_t exports_ = FakeGpu::instance().exports();
  const std::uint64_t imports_ = FakeGpu::instance().imports();
};

TEST(GpuProcesses, of_a_spawn_take_messages_and_collectives) {
  const ErrorsReturn handler(MPI_COMM_SELF);
  step("MPI_Comm_spawn");
  if (rank() == 0) {
    MPI_Comm children = MPI_COMM_NULL;
    const int code = MPI_Comm_spawn(child_program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                                    MPI_ERRCODES_IGNORE);
    if (code != MPI_SUCCESS) {
      harness_barrier();
      GTEST_SKIP() << "this launcher could not spawn a process";
    }
    const NothingNamed nothing;
    PlacedInts mine(Memory::gpu, {7});
    PlacedInts theirs(Memory::gpu, {-1});
    step("talking to the child");
    EXPECT_OK(
        MPI_Sendrecv(mine.data(), 1, MPI_INT, 0, 1, theirs.data(), 1, MPI_INT, 0, 1, children, MPI_STATUS_IGNORE));
    EXPECT_EQ(theirs.get(), Ints{42});
    theirs.set({-1});
    EXPECT_OK(MPI_Allreduce(mine.data(), theirs.data(), 1, MPI_INT, MPI_SUM, children));
    EXPECT_EQ(theirs.get(), Ints{42});
    EXPECT_OK(MPI_Recv(theirs.data(), 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE));
    EXPECT_EQ(theirs.get(), Ints{1});
    MPI_Comm merged = MPI_COMM_NULL;
    EXPECT_OK(MPI_Intercomm_merge(children, 0, &merged));
    EXPECT_OK(MPI_Comm_free(&merged));
    EXPECT_OK(MPI_Comm_disconnect(&children));
  }
  harness_barrier();
}

TEST(GpuProcesses, that_have_connected_take_messages) {
  if (ranks() < 2) GTEST_SKIP() << "needs a rank that connects";
  if (rank() > 1) return;
  constexpr int count = 20'000;
  const ErrorsReturn handler(MPI_COMM_SELF);
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other = MPI_COMM_NULL;
  step("MPI_Comm_connect");
  if (rank() == 0) {
    const int code = MPI_Open_port(MPI_INFO_NULL, port);
    if (code != MPI_SUCCESS) port[0] = '\0';
    PMPI_Send(port, sizeof port, MPI_CHAR, 1, 0, harness_comm());
    if (code != MPI_SUCCESS) GTEST_SKIP() << "this MPI could not open a port";
    ASSERT_OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
    MPI_Close_port(port);
  } else {
    PMPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, harness_comm(), MPI_STATUS_IGNORE);
    if (port[0] == '\0') GTEST_SKIP() << "rank 0 has no port";
    ASSERT_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
  }
  const NothingNamed nothing;
  PlacedInts out(Memory::gpu, counting(count, rank()));
  for (const Memory memory : {Memory::gpu, Memory::host}) {
    PlacedInts in(memory, Ints(count, -1));
    MPI_Request send = MPI_REQUEST_NULL;
    MPI_Status status;
    int received = 0;
    ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, 0, 3, other, &send));
    ASSERT_OK(MPI_Recv(in.data(), count, MPI_INT, MPI_ANY_SOURCE, 3, other, &status));
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    ASSERT_OK(MPI_Get_count(&status, MPI_INT, &received));
    EXPECT_EQ(received, count);
    EXPECT_EQ(in.get(), counting(count, 1 - rank()));
  }
  EXPECT_OK(MPI_Comm_disconnect(&other));
}

}  // namespace
}  // namespace partita::test
