// partita::halo of fields in GPU memory, in a queue of a stream, on the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/halo.hpp>
#include <partita/partita.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/queue_kind.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

/// Blocks of 4 x 3 cells, one below the other, around a periodic grid; two ghost cells on each side.
class StreamHalo : public testing::Test {
 protected:
  static constexpr int rows = 4, columns = 3, width = 2, all_rows = rows + 2 * width, all_columns = columns + 2 * width;
  static constexpr std::size_t cells = std::size_t{all_rows} * all_columns;

  StreamHalo() {
    const std::array ranks_of{ranks(), 1}, periodic{1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, ranks_of.data(), periodic.data(), 0, &cart_);
    MPI_Comm_set_errhandler(cart_, MPI_ERRORS_RETURN);
  }
  ~StreamHalo() override { MPI_Comm_free(&cart_); }

  static FakeWorker& worker() { return *static_cast<FakeWorker*>(*static_cast<void**>(queue_stream(0))); }
  double* field() const { return reinterpret_cast<double*>(memory_.data()); }
  static bool is_own(int row, int column) {
    return row >= width && row < width + rows && column >= width && column < width + columns;
  }
  /// What the cell at a local place holds in an epoch, on whatever rank it is.
  static double value(int row, int column, int epoch) {
    const int global_row = (rank() * rows + row - width + ranks() * rows) % (ranks() * rows);
    return 1000.0 * epoch + 10.0 * global_row + (column - width + columns) % columns;
  }
  void compute(int epoch) const {
    for (int row = 0; row < all_rows; ++row) {
      for (int column = 0; column < all_columns; ++column) {
        field()[row * all_columns + column] = is_own(row, column) ? value(row, column, epoch) : -1;
      }
    }
  }
  int wrong_cells(int epoch) const {
    int wrong = 0;
    for (int row = 0; row < all_rows; ++row) {
      for (int column = 0; column < all_columns; ++column) {
        wrong += field()[row * all_columns + column] != value(row, column, epoch);
      }
    }
    return wrong;
  }

  const FakeGpuBuffer memory_{mapped, cells * sizeof(double)};
  const halo_block<2> block_{{rows, columns}, width, {}};
  ErrorsReturn handler_{MPI_COMM_WORLD};
  MPI_Comm cart_ = MPI_COMM_NULL;
};

TEST_F(StreamHalo, is_gathered_between_kernels) {
  constexpr int epochs = 20;
  halo halo(communicator(cart_), block_, {field()});
  queue order = queue::cuda(*static_cast<void**>(queue_stream(0)));
  int wrong = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    worker().ask([this, epoch] { compute(epoch); });
    halo.enqueue_gather(order);
    worker().ask([this, epoch, &wrong] { wrong += wrong_cells(epoch); });
  }
  order.wait();
  worker().drain();
  EXPECT_EQ(0, wrong);
  order.free();
}

/// The fields are exchanged without the CPU, over a link that has no need of it.
TEST_F(StreamHalo, is_gathered_in_a_graph) {
  constexpr int launches = 20;
  halo halo(communicator(cart_), block_, {field()});
  queue order = queue::cuda(*static_cast<void**>(queue_stream(0)));
  int wrong = 0;
  int computed = 0;
  worker().begin_capture();
  worker().ask([&] { compute(++computed); });
  if (const char* const link = std::getenv("PARTITA_LINK"); link != nullptr && std::string_view(link) == "mpi") {
    EXPECT_TRUE(throws([&] { halo.enqueue_gather(order); }, MPI_ERR_ARG, {"captured", "link mpi"}));
    worker().end_capture();
    return;
  }
  halo.enqueue_gather(order);
  worker().ask([&] { wrong += wrong_cells(computed); });
  const std::vector<FakeWorker::Operation> graph = worker().end_capture();
  for (int i = 0; i < launches; ++i) {
    for (const FakeWorker::Operation& node : graph) worker().ask(node);
  }
  worker().drain();
  EXPECT_EQ(launches, computed);
  EXPECT_EQ(0, wrong);
  order.free();
}

TEST_F(StreamHalo, is_not_scattered) {
  halo halo(communicator(cart_), block_, {field()});
  EXPECT_TRUE(throws([&] { halo.scatter(); }, MPI_ERR_BUFFER, {"expected is host memory"}));
  compute(0);
  halo.gather();
  EXPECT_EQ(0, wrong_cells(0));
}

}  // namespace
}  // namespace partita::test
