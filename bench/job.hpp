// The two ranks that measure, and what they measure with.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "bench/clock.hpp"
#include "bench/failure.hpp"
#include "bench/options.hpp"
#include "bench/owned.hpp"
#include "bench/team.hpp"
#include "bench/work.hpp"

namespace partita::bench {

/// Everything that the parts of a benchmark share. Rank 0 sends, or begins; rank 1 receives, or answers.
struct Job {
  Job(MPI_Comm comm, const Options& options);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool is_first() const { return rank == 0; }
  int peer() const { return 1 - rank; }

  /// Both ranks have come here. Collective.
  void barrier() const { check(PMPI_Barrier(comm), "MPI_Barrier"); }
  /// The largest of the two ranks' values, on both. Collective.
  double slowest(double value) const;
  /// Whether `flag` is set on both ranks. Collective.
  bool on_both(bool flag) const;

  Options options;
  OwnedComm own_comm;
  MPI_Comm comm;  ///< the harness's own duplicate; no subject sends on it
  int rank;
  Timer timer;
  Work work;
  Team team;
  std::vector<std::shared_ptr<void>> shared;  ///< what contenders of several cases use; ends with the job
};

}  // namespace partita::bench
