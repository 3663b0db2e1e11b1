#include "bench/job.hpp"

#include <algorithm>
#include <utility>

namespace partita::bench {

namespace {

int size_of(MPI_Comm comm) {
  int size = 0;
  check(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

OwnedComm duplicate_of(MPI_Comm comm, Ranks wanted) {
  const int size = size_of(comm);
  if (wanted == Ranks::two && size != 2)
    throw Failure("A benchmark needs exactly 2 ranks, not {}: start it with mpirun -n 2.", size);
  if (wanted == Ranks::even && size % 2 != 0) {
    throw Failure(
        "A benchmark on two nodes needs an even number of ranks, half of them on each, not {}: start it with mpirun -n "
        "8.",
        size);
  }
  return duplicate(comm);
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

}  // namespace

Job::Job(MPI_Comm parent, const Options& wanted, Ranks wanted_ranks)
    : options(wanted),
      own_comm(duplicate_of(parent, wanted_ranks)),
      comm(own_comm.get()),
      rank(rank_in(comm)),
      ranks(size_of(comm)),
      timer(measure_timer()),
      work(Work::calibrated()),
      team(wanted.threads) {}

void Job::note(std::string sentence) {
  if (std::ranges::find(notes, sentence) == notes.end()) notes.push_back(std::move(sentence));
}

double Job::slowest(double value) const {
  double largest = 0;
  check(PMPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return largest;
}

bool Job::on_both(bool flag) const {
  const int here = flag ? 1 : 0;
  int both = 0;
  check(PMPI_Allreduce(&here, &both, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return both != 0;
}

}  // namespace partita::bench
