#include "bench/clock.hpp"

#include <algorithm>
#include <limits>

#include "bench/failure.hpp"

namespace partita::bench {

Timer measure_timer() {
  constexpr int reads = 20000;
  std::int64_t smallest_step = std::numeric_limits<std::int64_t>::max();
  const std::int64_t begin = now_ns();
  std::int64_t last = begin;
  for (int i = 0; i < reads; ++i) {
    const std::int64_t now = now_ns();
    if (now != last) smallest_step = std::min(smallest_step, now - last);
    last = now;
  }
  return {static_cast<double>(smallest_step), static_cast<double>(last - begin) / reads};
}

namespace {

bool share_a_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  check(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  int size = 0;
  check(PMPI_Comm_size(host, &size), "MPI_Comm_size");
  check(PMPI_Comm_free(&host), "MPI_Comm_free");
  return size == 2;
}

constexpr int round_trips = 200;

ClockOffset ask_peer(MPI_Comm comm) {
  ClockOffset best{0, std::numeric_limits<double>::max()};
  for (int i = 0; i < round_trips; ++i) {
    std::int64_t peer = 0;
    const std::int64_t asked = now_ns();
    PMPI_Send(&asked, 1, MPI_INT64_T, 1, 0, comm);
    PMPI_Recv(&peer, 1, MPI_INT64_T, 1, 0, comm, MPI_STATUS_IGNORE);
    const std::int64_t answered = now_ns();
    const double error = static_cast<double>(answered - asked) / 2;
    if (error < best.error_ns) best = {asked + (answered - asked) / 2 - peer, error};
  }
  return best;
}

void answer_peer(MPI_Comm comm) {
  for (int i = 0; i < round_trips; ++i) {
    std::int64_t asked = 0;
    PMPI_Recv(&asked, 1, MPI_INT64_T, 0, 0, comm, MPI_STATUS_IGNORE);
    const std::int64_t here = now_ns();
    PMPI_Send(&here, 1, MPI_INT64_T, 0, 0, comm);
  }
}

}  // namespace

ClockOffset measure_offset(MPI_Comm comm) {
  if (share_a_host(comm)) return {};
  int rank = 0;
  check(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (rank == 0) return ask_peer(comm);
  answer_peer(comm);
  return {};
}

}  // namespace partita::bench
