// A program in the C++ API, and in C++17: rank 0 sends four partitions to rank 1, a message in a queue, and numbers to
// all. Ends with 0 if they arrived.
#include <partita/partita.hpp>

#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

static constexpr int partitions = 4, count = 3, size = partitions * count;

static int send_partitions(partita::communicator world) {
  std::vector<double> values(size);
  std::iota(values.begin(), values.end(), 100.0);
  std::array<partita::request, 2> sends = {world.psend_init(values.data(), partitions, count, MPI_DOUBLE, 1, 7),
                                           world.send_init(values.data(), size, MPI_DOUBLE, 1, 8)};
  partita::matchall(sends);
  partita::queue queue = partita::queue::host();
  queue.enqueue_startall(sends);
  sends[0].pready_range(0, partitions - 1);
  queue.enqueue_waitall(sends);
  queue.free();
  return 0;
}

static int receive_partitions(partita::communicator world) {
  std::vector<double> values(size), expected(size), message(size);
  std::iota(expected.begin(), expected.end(), 100.0);
  std::array<partita::request, 2> receives = {world.precv_init(values.data(), 1, size, MPI_DOUBLE, 0, 7),
                                              world.recv_init(message.data(), size, MPI_DOUBLE, 0, 8)};
  partita::matchall(receives);
  partita::startall(receives);
  partita::waitall(receives);
  return values == expected && message == expected ? 0 : 1;
}

/// Rank 0 tells all of them two numbers; each takes what is complete as it comes.
static int collectives(partita::communicator world) {
  int numbers[2] = {0, 0};
  if (world.rank() == 0) numbers[0] = 3, numbers[1] = 4;
  std::vector<partita::request> casts;
  casts.push_back(world.bcast_init(&numbers[0], 1, MPI_INT, 0));
  casts.push_back(world.pbcast_init(&numbers[1], 1, 1, MPI_INT, 0));
  partita::startall(casts);
  if (world.rank() == 0) casts[1].pready(0);
  std::size_t completed = 0;
  partita::completions done;
  while (partita::waitsome(casts, done)) completed += done.size();
  return completed == 2 && numbers[0] == 3 && numbers[1] == 4 ? 0 : 5;
}

static int refuse_a_wrong_rank(partita::communicator world) {
  try {
    (void)world.recv_init(nullptr, 0, MPI_DOUBLE, world.size(), 0);
  } catch (const partita::error& error) {
    return error.error_class() == MPI_ERR_RANK ? 0 : 2;
  }
  return 3;
}

int main(int argc, char** argv) {
  int code = 0;
  MPI_Init(&argc, &argv);
  {
    const partita::runtime runtime;
    const partita::runtime inner;  // ends nothing
    try {
      const partita::communicator world(MPI_COMM_WORLD);
      world.throw_errors();
      code = world.rank() == 0 ? send_partitions(world) : world.rank() == 1 ? receive_partitions(world) : 0;
      if (code == 0) code = collectives(world);
      if (code == 0) code = refuse_a_wrong_rank(world);
    } catch (const partita::error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 10);
    }
  }
  if (partita::is_running()) code = 4;
  MPI_Finalize();
  return code;
}
