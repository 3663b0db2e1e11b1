// MPI_Alloc_mem gives memory of Partita's; MPI_Free_mem takes back either kind (MPI-4, section 9.2).
#include <partita/partita.h>
#include <array>

#include "apps/support/own_mpi.hpp"
#include "dropin_ring.hpp"

namespace partita::test {
namespace {

bool is_from_partita(const void* memory) {
  int flag = -1;
  EXPECT_EQ(MPI_SUCCESS, Partita_Is_allocated(memory, &flag));
  return flag != 0;
}

TEST(DropinMemory, comes_from_partita_and_goes_back_to_it) {
  int* memory = nullptr;
  ASSERT_EQ(MPI_SUCCESS, MPI_Alloc_mem(1000 * sizeof(int), MPI_INFO_NULL, &memory));
  ASSERT_NE(nullptr, memory);
  EXPECT_TRUE(is_from_partita(memory));
  for (int i = 0; i < 1000; ++i) memory[i] = i;
  ASSERT_EQ(MPI_SUCCESS, MPI_Free_mem(memory));
  EXPECT_FALSE(is_from_partita(memory));
}

TEST(DropinMemory, of_the_mpi_goes_back_to_the_mpi) {
  void* memory = nullptr;
  ASSERT_EQ(MPI_SUCCESS, PARTITA_OF_MPI(Alloc_mem)(100, MPI_INFO_NULL, &memory));
  EXPECT_FALSE(is_from_partita(memory));
  ASSERT_EQ(MPI_SUCCESS, MPI_Free_mem(memory));
}

TEST(DropinMemory, with_wishes_only_the_mpi_understands_comes_from_the_mpi) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
  void* memory = nullptr;
  ASSERT_EQ(MPI_SUCCESS, MPI_Alloc_mem(100, info, &memory));
  EXPECT_FALSE(is_from_partita(memory));
  ASSERT_EQ(MPI_SUCCESS, MPI_Free_mem(memory));
  MPI_Info_free(&info);
}

TEST(DropinMemory, carries_partitioned_messages) {
  constexpr int count = 100'000;
  int* out = nullptr;
  int* in = nullptr;
  MPI_Alloc_mem(count * sizeof(int), MPI_INFO_NULL, &out);
  MPI_Alloc_mem(count * sizeof(int), MPI_INFO_NULL, &in);
  std::array requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const int previous = (rank() + ranks() - 1) % ranks();
  MPI_Psend_init(out, 10, count / 10, MPI_INT, (rank() + 1) % ranks(), 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(in, 5, count / 5, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int i = 0; i < count; ++i) out[i] = i + epoch + rank();
    ASSERT_EQ(MPI_SUCCESS, MPI_Startall(2, requests.data()));
    ASSERT_EQ(MPI_SUCCESS, MPI_Pready_range(0, 9, requests[0]));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; ++i) ASSERT_EQ(i + epoch + previous, in[i]);
  }
  for (auto& request : requests) MPI_Request_free(&request);
  harness_barrier();
  EXPECT_EQ(MPI_SUCCESS, MPI_Free_mem(out));
  EXPECT_EQ(MPI_SUCCESS, MPI_Free_mem(in));
}

}  // namespace
}  // namespace partita::test
