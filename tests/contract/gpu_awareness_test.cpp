// What the ranks of a job agree on about GPU memory in the MPI's own calls, where their settings and what they see
// differ. Each scenario has one rank that is different, the last; on one rank it is the only one.
#include "runtime/gpu_awareness.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>

#include "core/agreement.hpp"
#include "core/settings.hpp"
#include "support/fake_transfer.hpp"
#include "support/job.hpp"
#include "two_sided/peer_sizes.hpp"

namespace partita::test {
namespace {

using From = PeerCollectiveSize::From;

/// GPU memory that is there, or not.
class SeenMemory final : public NoDeviceMemory {
 public:
  bool exists() const override { return is_built; }
  bool may_come() const override { return is_built && sees_gpu; }

  bool is_built = true;
  bool sees_gpu = true;
};

class GpuAwarenessOfRanks : public testing::Test {
 protected:
  GpuAwarenessOfRanks() { settings.gpu_aware = GpuAware::on; }
  static bool is_last() { return rank() == ranks() - 1; }
  GpuAwareness agree() {
    const GpuAwareness agreed = agree_on_gpu_awareness(settings, world, memory);
    const std::int64_t own[] = {agreed.on ? 1 : 0, agreed.peer_sizes ? agreed.peer_sizes->least_bytes : -1,
                                agreed.peer_sizes && agreed.peer_sizes->are_measured ? 1 : 0};
    std::int64_t least[3];
    std::int64_t largest[3];
    PMPI_Allreduce(own, least, 3, MPI_INT64_T, MPI_MIN, harness_comm());
    PMPI_Allreduce(own, largest, 3, MPI_INT64_T, MPI_MAX, harness_comm());
    for (int word = 0; word < 3; ++word) EXPECT_EQ(least[word], largest[word]) << "all ranks know the same: " << word;
    EXPECT_EQ(agreed.peer_sizes.has_value(), agreed.why_no_peers.empty()) << agreed.why_no_peers;
    return agreed;
  }
  void expect_none(const char* why) {
    const GpuAwareness agreed = agree();
    EXPECT_FALSE(agreed.peer_sizes);
    EXPECT_EQ(agreed.why_no_peers, why);
  }
  void expect_sizes(std::int64_t bcast_bytes, std::int64_t allreduce_bytes) {
    const GpuAwareness agreed = agree();
    ASSERT_TRUE(agreed.peer_sizes);
    EXPECT_EQ(agreed.peer_sizes->from_bytes(PeerCollective::Bcast, 2), bcast_bytes);
    EXPECT_EQ(agreed.peer_sizes->from_bytes(PeerCollective::Allreduce, 2), allreduce_bytes);
  }

  World world{MPI_COMM_WORLD};
  Settings settings;
  SeenMemory memory;
};

TEST_F(GpuAwarenessOfRanks, has_measured_sizes_where_nobody_has_set_any) {
  expect_sizes(4096, 65536);
}

TEST_F(GpuAwarenessOfRanks, takes_the_largest_number_of_bytes) {
  settings.peer_collectives = {From::bytes, 100 * rank()};
  expect_sizes(100 * (ranks() - 1), 100 * (ranks() - 1));
}

TEST_F(GpuAwarenessOfRanks, takes_the_larger_of_measured_sizes_and_bytes_for_each_collective) {
  if (ranks() == 1) GTEST_SKIP() << "has no other rank";
  if (is_last()) settings.peer_collectives = {From::bytes, 5000};
  expect_sizes(5000, 65536);
}

TEST_F(GpuAwarenessOfRanks, has_none_where_one_rank_has_them_off) {
  if (!is_last()) settings.peer_collectives = {From::bytes, 0};
  if (is_last()) settings.peer_collectives = {From::never, 0};
  expect_none("a rank has PARTITA_PEER_COLLECTIVES off");
}

TEST_F(GpuAwarenessOfRanks, has_none_where_one_rank_leaves_gpu_memory_to_the_mpi) {
  if (is_last()) settings.gpu_aware = GpuAware::off;
  expect_none("Partita takes no GPU memory in MPI's own calls");
}

TEST_F(GpuAwarenessOfRanks, has_none_where_one_rank_knows_no_gpu_memory) {
  memory.is_built = !is_last();
  expect_none("a rank has a Partita that was built without CUDA");
}

TEST_F(GpuAwarenessOfRanks, has_none_where_no_rank_can_come_to_have_gpu_memory) {
  memory.sees_gpu = false;
  settings.peer_collectives = {From::bytes, 0};
  expect_none("no rank has a GPU");
}

/// Its collectives with the others may go by peer memory, since only in the call it is known which memory they take.
TEST_F(GpuAwarenessOfRanks, has_sizes_where_one_rank_sees_a_gpu) {
  memory.sees_gpu = is_last();
  expect_sizes(4096, 65536);
}

/// The MPI would order nothing behind it.
TEST_F(GpuAwarenessOfRanks, takes_gpu_memory_where_a_rank_names_a_stream) {
  settings.gpu_aware = GpuAware::automatic;
  if (is_last()) settings.call_stream = CallStream::legacy;
  EXPECT_TRUE(agree().on);
}

TEST_F(GpuAwarenessOfRanks, fails_on_all_where_a_rank_names_a_stream_and_one_leaves_gpu_memory_to_the_mpi) {
  if (is_last()) settings.call_stream = CallStream::per_thread;
  if (rank() == 0) settings.gpu_aware = GpuAware::off;
  try {
    agree();
    ADD_FAILURE() << "the ranks have agreed";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::arg);
    const std::string why = ranks() == 1 ? "PARTITA_GPU_AWARE is off" : "another rank of the job has it off";
    const std::string told = "rank " + std::to_string(ranks() - 1) +
                             ": the environment sets PARTITA_GPU_AWARE_STREAM=" +
                             "per-thread, but GPU memory in MPI's own calls is left to the MPI: " + why + "; expected";
    EXPECT_TRUE(error.sentence().starts_with(told)) << error.sentence();
  }
}

}  // namespace
}  // namespace partita::test
