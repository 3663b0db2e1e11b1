// partita::halo of fields in GPU memory, in a queue of a stream, on CUDA and on the fake GPU alike; copies of the
// stream stand for the kernels that compute and use the fields.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/halo.hpp>
#include <partita/partita.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "contract/gpu_program.hpp"
#include "support/errors.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

/// Blocks of 6 x 5 cells, one below the other, around a periodic grid; two ghost cells on each side.
class StreamHalo : public testing::Test {
 protected:
  static constexpr int rows = 6, columns = 5, width = 2, all_rows = rows + 2 * width, all_columns = columns + 2 * width;
  static constexpr std::size_t cells = std::size_t{all_rows} * all_columns, bytes = cells * sizeof(double);
  using Cells = std::vector<double>;

  StreamHalo() {
    const std::array ranks_of{ranks(), 1}, periodic{1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, ranks_of.data(), periodic.data(), 0, &cart_);
    MPI_Comm_set_errhandler(cart_, MPI_ERRORS_RETURN);
    write_epochs(0);
  }
  ~StreamHalo() override {
    stream_.drain();
    MPI_Comm_free(&cart_);
  }

  /// A block's cells in GPU memory.
  class Field {
   public:
    double* cells() const { return reinterpret_cast<double*>(memory_.data()); }
    void write(const Cells& from) const { gpu_copy(memory_.data(), from.data(), bytes); }
    Cells read() const {
      Cells all(StreamHalo::cells);
      gpu_copy(all.data(), memory_.data(), bytes);
      return all;
    }

   private:
    ProgramMemory memory_{bytes};
  };

  static bool is_own(int row, int column) {
    return row >= width && row < width + rows && column >= width && column < width + columns;
  }
  static std::size_t place(int row, int column) { return std::size_t(row) * all_columns + std::size_t(column); }
  /// What the cell at a local place holds in an epoch, on whatever rank it is.
  static double value(int row, int column, int epoch) {
    const int global_row = (rank() * rows + row - width + ranks() * rows) % (ranks() * rows);
    return 1000.0 * epoch + 10.0 * global_row + (column - width + columns) % columns;
  }
  static Cells computed(int epoch) {
    Cells all(cells, -1);
    for (int row = width; row < width + rows; ++row) {
      for (int column = width; column < width + columns; ++column) all[place(row, column)] = value(row, column, epoch);
    }
    return all;
  }
  static int wrong_cells(const Cells& found, int epoch) {
    int wrong = 0;
    for (int row = 0; row < all_rows; ++row) {
      for (int column = 0; column < all_columns; ++column) {
        wrong += found[place(row, column)] != value(row, column, epoch);
      }
    }
    return wrong;
  }

  /// What compute() gives from now on: `epochs` epochs from `first` on. The stream is at rest.
  void write_epochs(int first) {
    for (int i = 0; i < epochs; ++i) computed_[i].write(computed(first + i));
  }
  /// In the stream: computes the block of the i-th epoch, with ghost cells that nobody has sent; and keeps what it is.
  void compute(const Field& field, int i) { stream_.copy(field.cells(), computed_[i].cells(), bytes); }
  void use(const Field& field, int i) { stream_.copy(used_[i].cells(), field.cells(), bytes); }
  /// When the stream has come to its end.
  void expect_used(int first) {
    stream_.drain();
    for (int i = 0; i < epochs; ++i) EXPECT_EQ(0, wrong_cells(used_[i].read(), first + i)) << "epoch " << first + i;
  }

  communicator cart() const { return communicator(cart_); }
  static bool over_link_mpi() {
    const char* const link = std::getenv("PARTITA_LINK");
    return link != nullptr && std::string_view(link) == "mpi";
  }

  static constexpr int epochs = 6;
  ProgramStream stream_;
  const Field field_, other_;
  const std::array<Field, epochs> computed_, used_;
  const halo_block<2> block_{{rows, columns}, width, {}};
  ErrorsReturn handler_{MPI_COMM_WORLD};
  MPI_Comm cart_ = MPI_COMM_NULL;
};

TEST_F(StreamHalo, is_gathered_between_kernels) {
  halo halo(cart(), block_, {field_.cells()});
  queue order = queue::cuda(stream_.native());
  for (int series = 0; series < 4; ++series) {
    write_epochs(series * epochs);
    for (int i = 0; i < epochs; ++i) {
      compute(field_, i);
      halo.enqueue_gather(order);
      use(field_, i);
    }
    order.wait();
    expect_used(series * epochs);
  }
  order.free();
}

TEST_F(StreamHalo, is_gathered_by_the_host) {
  halo halo(cart(), block_, {field_.cells()});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    field_.write(computed(epoch));
    halo.gather();
    EXPECT_EQ(0, wrong_cells(field_.read(), epoch));
  }
}

/// Cells that no neighbour has as ghost cells are computed while messages travel.
TEST_F(StreamHalo, leaves_room_between_its_steps_for_what_needs_no_ghost_cells) {
  halo halo(cart(), block_, {field_.cells()});
  queue order = queue::cuda(stream_.native());
  const std::array inner{place(2 * width, 2 * width), place(2 * width + 1, 2 * width)};
  for (int i = 0; i + 1 < epochs; ++i) {
    compute(field_, i);
    halo.enqueue_receives(order);
    halo.enqueue_sends(order);
    for (const std::size_t at : inner) stream_.copy(field_.cells() + at, computed_[i + 1].cells() + at, sizeof(double));
    halo.enqueue_wait(order);
    use(field_, i);
  }
  order.wait();
  stream_.drain();
  for (int i = 0; i + 1 < epochs; ++i) {
    Cells found = used_[i].read();
    for (const std::size_t at : inner) {
      EXPECT_EQ(computed(i + 1)[at], found[at]);
      found[at] -= 1000;
    }
    EXPECT_EQ(0, wrong_cells(found, i)) << "epoch " << i;
  }
  order.free();
}

/// The fields are exchanged without the CPU, over a link that has no need of it.
TEST_F(StreamHalo, is_gathered_in_a_graph) {
  halo halo(cart(), block_, {field_.cells()});
  queue order = queue::cuda(stream_.native());
  bool refused = false;
  stream_.capture([&] {
    for (int i = 0; i < epochs; ++i) {
      compute(field_, i);
      if (over_link_mpi()) {
        refused = throws([&] { halo.enqueue_gather(order); }, MPI_ERR_ARG, {"captured", "link mpi"});
        return;
      }
      halo.enqueue_gather(order);
      use(field_, i);
    }
  });
  EXPECT_EQ(over_link_mpi(), refused);
  for (int launch = 0; launch < 5 && !refused; ++launch) {
    write_epochs(launch * epochs);
    stream_.launch_graph();
    expect_used(launch * epochs);
    halo.check_graphs();
  }
  order.free();
}

/// Fields that take turns: whoever has this one's message knows that the sender has started its receive of the next.
class StreamHaloTurns : public StreamHalo {
 protected:
  /// The first exchange has regular sends.
  void enqueue_series() {
    order_ready(&first_, 0);
    for (int i = 1; i < epochs; ++i) order_ready(ready_of(i), i);
  }

  halo<2> first_{cart(), block_, {field_.cells()}};
  halo<2> even_{first_, {field_.cells()}, halo_sends::ready}, odd_{first_, {other_.cells()}, halo_sends::ready};
  queue order_ = queue::cuda(stream_.native());

 private:
  halo<2>* ready_of(int i) { return i % 2 == 0 ? &even_ : &odd_; }
  void order_ready(halo<2>* own, int i) {
    const Field& field = i % 2 == 0 ? field_ : other_;
    compute_own(field, i);
    if (own == &first_) own->enqueue_receives(order_);
    if (i + 1 < epochs) ready_of(i + 1)->enqueue_receives(order_);
    own->enqueue_sends(order_);
    own->enqueue_wait(order_);
    use(field, i);
  }
  /// The ghost cells are the halo's, whose receives may have started.
  void compute_own(const Field& field, int i) {
    for (int row = width; row < width + rows; ++row) {
      const std::size_t at = place(row, width);
      stream_.copy(field.cells() + at, computed_[i].cells() + at, columns * sizeof(double));
    }
  }
};

TEST_F(StreamHaloTurns, have_ready_sends) {
  for (int series = 0; series < 4; ++series) {
    write_epochs(series * epochs);
    enqueue_series();
    order_.wait();
    expect_used(series * epochs);
  }
}

TEST_F(StreamHaloTurns, have_ready_sends_in_graphs) {
  if (over_link_mpi()) GTEST_SKIP() << "over link mpi the engine has to take part, which a graph does not know";
  stream_.capture([&] { enqueue_series(); });
  for (int launch = 0; launch < 5; ++launch) {
    write_epochs(launch * epochs);
    stream_.launch_graph();
    expect_used(launch * epochs);
  }
  for (halo<2>* const each : {&first_, &even_, &odd_}) each->check_graphs();
}

TEST_F(StreamHaloTurns, are_gathered_in_steps_only) {
  EXPECT_TRUE(throws([&] { even_.enqueue_gather(order_); }, MPI_ERR_REQUEST, {"ready", "expected are the steps"}));
  write_epochs(0);
  enqueue_series();
  order_.wait();
  expect_used(0);
}

/// No queue sees what happens in a graph.
TEST_F(StreamHalo, tells_what_has_gone_wrong_in_a_graph) {
  if (ranks() != 2 || over_link_mpi()) GTEST_SKIP() << "needs two ranks whose GPUs map each other's memory";
  auto made = std::make_unique<halo<2>>(cart(), block_, std::vector<halo_field>{field_.cells()});
  queue order = queue::cuda(stream_.native());
  stream_.capture([&] { made->enqueue_gather(order); });
  if (rank() == 1) {
    made->leave();
    made.reset();
    harness_barrier();
    return;
  }
  harness_barrier();
  stream_.launch_graph();
  stream_.drain();
  EXPECT_TRUE(throws([&] { made->check_graphs(); }, MPI_ERR_REQUEST, {"has freed its request"}));
}

/// Between what the stream does.
TEST_F(StreamHalo, is_scattered_by_the_host) {
  halo halo(cart(), block_, {field_.cells()});
  queue order = queue::cuda(stream_.native());
  const Cells ones(cells, 1);
  field_.write(ones);
  halo.scatter();
  const Cells sums = field_.read();
  for (int row = width; row < width + rows; ++row) {
    for (int column = width; column < width + columns; ++column) {
      const int in_rows = row < 2 * width || row >= rows ? 2 : 1;
      const int in_columns = 1 + (column < 2 * width) + (column >= columns);
      EXPECT_EQ(in_rows * in_columns, sums[place(row, column)]) << row << ", " << column;
    }
  }
  compute(field_, 0);
  halo.enqueue_gather(order);
  use(field_, 0);
  order.wait();
  stream_.drain();
  EXPECT_EQ(0, wrong_cells(used_[0].read(), 0));
  order.free();
}

}  // namespace
}  // namespace partita::test
