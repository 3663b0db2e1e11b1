// Which messages may be offers (PARTITA_PEER_MESSAGES=1000), by what a program has promised of its communicator. On the
// fake GPU, which counts copies.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <vector>

#include "contract/gpu_aware_job.hpp"
#include "dropin/native.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/placed_ints.hpp"
#include "support/received_ints.hpp"

namespace partita::test {
namespace {

/// Nothing is offered on a communicator that was made past the drop-in: a probe leaves its messages to the MPI.
TEST(OfferedLength, is_looked_at_where_offers_may_come_only) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(dropin::native().Comm_dup(MPI_COMM_WORLD, &comm));
  const std::vector<char> out(offer_bytes, static_cast<char>('a' + rank()));
  std::vector<char> in(offer_bytes);
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Status status;
  ASSERT_OK(MPI_Issend(out.data(), offer_bytes, MPI_CHAR, right(), 1, comm, &send));
  ASSERT_OK(MPI_Probe(left(), 1, comm, &status));
  harness_barrier();
  int done = 0;
  for (int look = 0; look < 1000; ++look) ASSERT_OK(MPI_Test(&send, &done, MPI_STATUS_IGNORE));
  EXPECT_EQ(done, 0);
  harness_barrier();
  ASSERT_OK(MPI_Recv(in.data(), offer_bytes, MPI_CHAR, left(), 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(in, std::vector<char>(offer_bytes, static_cast<char>('a' + left())));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  ASSERT_OK(dropin::native().Comm_free(&comm));
}

#if MPI_VERSION >= 4
/// What is offered goes from GPU to GPU; what is not, through host memory on both sides.
TEST(OfferedPromises, keep_messages_whole) {
  MPI_Info info = MPI_INFO_NULL;
  PlacedInts out(Memory::gpu, counting(many, 100 * rank()));
  PlacedInts in(Memory::gpu, Ints(many, -1));
  for (const char* const promise : {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length"}) {
    MPI_Comm comm = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (const bool is_promised : {false, true, false}) {
      ASSERT_OK(MPI_Info_create(&info));
      ASSERT_OK(MPI_Info_set(info, promise, is_promised ? "true" : "false"));
      ASSERT_OK(MPI_Comm_set_info(comm, info));
      ASSERT_OK(MPI_Info_free(&info));
      harness_barrier();
      MPI_Request send = MPI_REQUEST_NULL;
      MPI_Status status;
      in.set(Ints(many, -1));
      const std::uint64_t before = FakeGpu::instance().copies_with_host();
      ASSERT_OK(MPI_Isend(out.data(), many, MPI_INT, right(), 1, comm, &send));
      ASSERT_OK(MPI_Probe(left(), 1, comm, &status));
      expect_from(status, left(), 1, many);
      ASSERT_OK(MPI_Recv(in.data(), many, MPI_INT, left(), 1, comm, MPI_STATUS_IGNORE));
      harness_barrier();
      EXPECT_EQ(FakeGpu::instance().copies_with_host() - before, is_promised ? 2U : 0U) << promise;
      EXPECT_EQ(in.get(), counting(many, 100 * left()));
      ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    ASSERT_OK(MPI_Comm_free(&comm));
  }
}
#endif

}  // namespace
}  // namespace partita::test
