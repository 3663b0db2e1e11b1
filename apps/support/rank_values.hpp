// Figures that each rank has one of.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

namespace partita::apps {

/// The `value` of every rank on rank 0; empty elsewhere. Collective.
std::vector<double> gather_values(MPI_Comm comm, double value);

/// Whether it is so on any rank; the same answer on all. Collective.
inline bool on_any_rank(MPI_Comm comm, bool here) {
  int flag = here ? 1 : 0, anywhere = 0;
  MPI_Allreduce(&flag, &anywhere, 1, MPI_INT, MPI_MAX, comm);
  return anywhere != 0;
}

/// 0 where there are none.
double median_of(std::vector<double> values);
double largest_of(const std::vector<double>& values);

/// The run whose `time_s` is the median of `runs`, the shorter of the middle two if their number is even. `runs` is not
/// empty.
template <class Run>
const Run& median_run(const std::vector<Run>& runs) {
  std::vector<const Run*> by_time;
  by_time.reserve(runs.size());
  for (const Run& run : runs) by_time.push_back(&run);
  std::sort(by_time.begin(), by_time.end(), [](const Run* a, const Run* b) { return a->time_s < b->time_s; });
  return *by_time[(by_time.size() - 1) / 2];
}

}  // namespace partita::apps
