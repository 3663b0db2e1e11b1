#include "program/end_job.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace partita::program {

void end_job(const std::exception& error) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fmt::print(stderr, "partita: rank {}: {}\n", rank, error.what());
  std::fflush(stderr);
  // MPICH's launcher may end a job before it has passed on what was said last.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

}  // namespace partita::program
