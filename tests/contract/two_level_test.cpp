// A sum over two nodes in two levels, as partitioned.fig7 and bce have it: kernels sum in a node and mark what an
// allreduce with the other node takes. Threads stand for kernels, and memory for a GPU's; the nodes are parts of this
// machine (PARTITA_NODES=2, which the entry sets).
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <memory>
#include <string>

#include "apps/support/two_nodes.hpp"
#include "support/cpu_kernel.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

constexpr int partitions_across = 4;
constexpr int part_ints = 4 * 300;  ///< of each rank of a node

/// Ints in memory that stands for a GPU's.
class Ints {
 public:
  explicit Ints(int count) : buffer_(mapped, sizeof(int) * static_cast<std::size_t>(count)) {}
  int* data() const { return reinterpret_cast<int*>(buffer_.data()); }

 private:
  const FakeGpuBuffer buffer_;
};

/// A collective with its device request.
class Summing {
 public:
  template <class Init>
  Summing(const char* driver, const Init& init) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", driver);
    EXPECT_EQ(init(info, &request), MPI_SUCCESS);
    PMPI_Info_free(&info);
    EXPECT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS);
  }
  ~Summing() {
    harness_barrier();
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    harness_barrier();
  }
  Summing(const Summing&) = delete;
  Summing& operator=(const Summing&) = delete;

  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest device{};
};

int addend(int of_rank, int epoch, int i) {
  return 1000 * of_rank + 7 * epoch + i;
}

class TwoLevel : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(nodes_.problem()) << *nodes_.problem();
    ASSERT_EQ(Partita_Comm_register(nodes_.within()), MPI_SUCCESS);
    ASSERT_EQ(Partita_Comm_register(nodes_.across()), MPI_SUCCESS);
  }
  int count() const { return part_ints * nodes_.ranks_of_a_node(); }
  void write(const Ints& ints, int epoch) const {
    for (int i = 0; i < count(); ++i) ints.data()[i] = addend(rank(), epoch, i);
  }
  void expect_sums(const Ints& ints, int epoch) const {
    for (int i = 0; i < count(); ++i) {
      int sum = 0;
      for (int r = 0; r < ranks(); ++r) sum += addend(r, epoch, i);
      ASSERT_EQ(ints.data()[i], sum) << "epoch " << epoch << ", element " << i;
    }
  }
  /// The partitions of `across`, by the blocks of a grid.
  static void mark(const Summing& across, const GridShape& grid, unsigned thread) {
    for (int p = static_cast<int>(thread / grid.threads); p < partitions_across; p += static_cast<int>(grid.blocks)) {
      EXPECT_EQ(MPIX_Pready_block(p, across.device), PARTITA_DEVICE_SUCCESS);
    }
  }
  Summing allreduce_across(const Ints& mine, const Ints& sums, int ints) const {
    return Summing("host", [&](MPI_Info info, Partita_Request* request) {
      return Partita_Pallreduce_init(mine.data(), sums.data(), partitions_across, ints / partitions_across, MPI_INT,
                                     MPI_SUM, nodes_.across(), info, request);
    });
  }
  /// Behind an epoch, for which all have matched.
  void expect_links(const Summing& within, const Summing& across) const {
    if (nodes_.ranks_of_a_node() > 1) {
      EXPECT_EQ(told(within.request, "partita_link"), "direct");
    }
    EXPECT_NE(told(across.request, "partita_link"), "direct");
    EXPECT_NE(told(across.request, "partita_link"), "");
  }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
  const apps::TwoNodes nodes_{MPI_COMM_WORLD};
  static constexpr GridShape grid_{2, 2};
  static constexpr int epochs_ = 6;
};

TEST_F(TwoLevel, sums_of_parts_are_scattered_added_and_gathered) {
  const Ints sent(count()), mine(part_ints), summed(part_ints), received(count());
  const Summing scatter("device", [&](MPI_Info info, Partita_Request* request) {
    return Partita_Preduce_scatter_block_init(sent.data(), mine.data(), 1, part_ints, MPI_INT, MPI_SUM, nodes_.within(),
                                              info, request);
  });
  Summing across = allreduce_across(mine, summed, part_ints);
  const Summing gather("device", [&](MPI_Info info, Partita_Request* request) {
    return Partita_Pallgather_init(summed.data(), 1, part_ints, MPI_INT, received.data(), part_ints, MPI_INT,
                                   nodes_.within(), info, request);
  });
  for (int epoch = 1; epoch <= epochs_; ++epoch) {
    write(sent, epoch);
    ASSERT_EQ(Partita_Start(&across.request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pbuf_prepare(across.request), MPI_SUCCESS);
    CpuKernel(grid_, [&](unsigned thread) {
      EXPECT_EQ(MPIX_Preduce_scatter(scatter.device), PARTITA_DEVICE_SUCCESS);
      mark(across, grid_, thread);
    }).end();
    ASSERT_EQ(Partita_Wait(&across.request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    expect_links(scatter, across);
    CpuKernel(grid_, [&](unsigned) { EXPECT_EQ(MPIX_Pallgather(gather.device), PARTITA_DEVICE_SUCCESS); }).end();
    expect_sums(received, epoch);
  }
}

TEST_F(TwoLevel, whole_sums_of_the_nodes_are_added) {
  const Ints sent(count()), of_node(count()), received(count());
  const Summing within("device", [&](MPI_Info info, Partita_Request* request) {
    return Partita_Pallreduce_init(sent.data(), of_node.data(), 1, count(), MPI_INT, MPI_SUM, nodes_.within(), info,
                                   request);
  });
  Summing across = allreduce_across(of_node, received, count());
  for (int epoch = 1; epoch <= epochs_; ++epoch) {
    write(sent, epoch);
    ASSERT_EQ(Partita_Start(&across.request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pbuf_prepare(across.request), MPI_SUCCESS);
    CpuKernel(grid_, [&](unsigned thread) {
      EXPECT_EQ(MPIX_Pallreduce(within.device), PARTITA_DEVICE_SUCCESS);
      mark(across, grid_, thread);
    }).end();
    ASSERT_EQ(Partita_Wait(&across.request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    expect_links(within, across);
    expect_sums(received, epoch);
  }
}

}  // namespace
}  // namespace partita::test
