// Cells on a torus, divided among the ranks in two dimensions: in each step a cell becomes the exclusive or of its
// eight neighbours. A halo fills the cells around each rank's own with those of its neighbours, corners too.
#include <mpi.h>
#include <partita/halo.hpp>
#include <partita/partita.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

constexpr int steps = 30, rows_each = 12, columns_each = 20;

// Cells of `rows` x `columns`, inside a frame of ghost cells.
struct Board {
  int rows, columns;
  std::vector<int> cells = std::vector<int>(static_cast<std::size_t>((rows + 2) * (columns + 2)));

  int& at(int row, int column) { return cells.data()[row * (columns + 2) + column]; }
};

static void step(Board& board, Board& next) {
  for (int row = 1; row <= board.rows; ++row) {
    for (int column = 1; column <= board.columns; ++column) {
      int parity = board.at(row, column);  // taken back by the loops
      for (int down = -1; down <= 1; ++down) {
        for (int across = -1; across <= 1; ++across) parity ^= board.at(row + down, column + across);
      }
      next.at(row, column) = parity;
    }
  }
  std::copy(next.cells.begin(), next.cells.end(), board.cells.begin());
}

// A torus of blocks of rows x columns, one a rank of `cart`, after all steps: the places of its living cells, added up.
static long long living(partita::communicator cart, int rows, int columns) {
  std::array<int, 2> ranks{}, periodic{}, place{};
  partita::check(MPI_Cart_get(cart.handle(), 2, ranks.data(), periodic.data(), place.data()));
  Board board{rows, columns}, next{rows, columns};
  if (cart.rank() == 0) board.at(1, 1) = board.at(2, 3) = 1;

  partita::halo halo(cart, partita::halo_block<2>{{rows, columns}, 1, {}}, {board.cells.data()});
  for (int i = 0; i < steps; ++i) {
    halo.gather();
    step(board, next);
  }

  long long sum = 0;
  for (int row = 1; row <= rows; ++row) {
    for (int column = 1; column <= columns; ++column) {
      const int all_row = place[0] * rows + row, all_column = place[1] * columns + column;
      sum += board.at(row, column) * (1LL + all_row * ranks[1] * columns + all_column);
    }
  }
  partita::check(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG_LONG, MPI_SUM, cart.handle()));
  return sum;
}

// `ranks` says how many there are in each dimension of the torus.
static MPI_Comm torus(MPI_Comm comm, std::array<int, 2> ranks) {
  const std::array<int, 2> periodic{1, 1};
  MPI_Comm cart = MPI_COMM_NULL;
  partita::check(MPI_Cart_create(comm, 2, ranks.data(), periodic.data(), 0, &cart));
  partita::communicator(cart).throw_errors();
  return cart;
}

int main(int argc, char** argv) {
  int level = 0;
  bool right = false;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  {
    partita::runtime runtime;  // ends behind the halos, when all ranks have come to its end
    try {
      const partita::communicator world(MPI_COMM_WORLD);
      world.throw_errors();
      std::array<int, 2> ranks{};
      MPI_Dims_create(world.size(), 2, ranks.data());
      MPI_Comm all = torus(MPI_COMM_WORLD, ranks), one = torus(MPI_COMM_SELF, {1, 1});
      const long long together = living(partita::communicator(all), rows_each, columns_each);
      // Each rank alone: a block that is its own neighbour on all sides.
      const long long alone = living(partita::communicator(one), ranks[0] * rows_each, ranks[1] * columns_each);
      right = together == alone;
      if (world.rank() == 0) std::printf("%lld, which is %s\n", together, right ? "right" : "wrong");
      MPI_Comm_free(&all);
      MPI_Comm_free(&one);
    } catch (const partita::error& error) {  // in here, as not all ranks may come to the runtime's end
      std::fprintf(stderr, "%s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
