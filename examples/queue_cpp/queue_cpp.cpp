// A ring of cells, divided among the ranks: in each step a cell becomes the exclusive or of its two neighbours. The
// same as the example queue, in the C++ API: requests and the queue free themselves, and an error is an exception.
#include <mpi.h>
#include <partita/partita.hpp>

#include <array>
#include <cstdio>
#include <vector>

constexpr int cells_per_rank = 100, steps = 1000;

// cells.front() and cells.back() are the neighbours'.
static void step(std::vector<int>& cells) {
  int before = cells.front();
  for (std::size_t i = 1; i + 1 < cells.size(); ++i) {
    const int now = cells[i];
    cells[i] = before ^ cells[i + 1];
    before = now;
  }
}

static std::vector<int> after_all_steps(partita::communicator world) {
  const int rank = world.rank(), ranks = world.size();
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  std::vector<int> cells(cells_per_rank + 2);
  int* const first = &cells[1];
  int* const last = &cells[cells_per_rank];

  std::array requests = {world.recv_init(first - 1, 1, MPI_INT, left, 0),
                         world.recv_init(last + 1, 1, MPI_INT, right, 1), world.send_init(last, 1, MPI_INT, right, 0),
                         world.send_init(first, 1, MPI_INT, left, 1)};
  partita::matchall(requests);
  partita::queue queue = partita::queue::host();

  if (rank == 0) *first = 1;
  for (int i = 0; i < steps; ++i) {
    queue.enqueue_startall(requests);
    queue.enqueue_waitall(requests);
    step(cells);
  }
  queue.free();  // throws what has failed on the way
  return cells;
}

// Rank 0 does it all alone, too.
static bool is_right(const std::vector<int>& all) {
  std::vector<int> alone(all.size() + 2);
  alone[1] = 1;
  for (int i = 0; i < steps; ++i) {
    alone.front() = alone[all.size()];
    alone.back() = alone[1];
    step(alone);
  }
  return all == std::vector<int>(alone.begin() + 1, alone.end() - 1);
}

static bool solve(partita::communicator world) {
  const std::vector<int> cells = after_all_steps(world);
  std::vector<int> all(static_cast<std::size_t>(world.rank() == 0 ? world.size() * cells_per_rank : 0));
  MPI_Gather(&cells[1], cells_per_rank, MPI_INT, all.data(), cells_per_rank, MPI_INT, 0, world.handle());
  if (world.rank() != 0) return true;
  int living = 0;
  for (const int cell : all) living += cell;
  const bool right = is_right(all);
  std::printf("%d cells live, which is %s\n", living, right ? "right" : "wrong");
  return right;
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  bool right = false;
  {
    partita::runtime runtime;  // ends behind all requests and queues, when all ranks have come to its end
    try {
      const partita::communicator world(MPI_COMM_WORLD);
      world.throw_errors();
      right = solve(world);
    } catch (const partita::error& error) {  // in here, as not all ranks may come to the runtime's end
      std::fprintf(stderr, "%s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
