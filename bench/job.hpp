// The two ranks that measure, and what they measure with.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/clock.hpp"
#include "bench/failure.hpp"
#include "bench/options.hpp"
#include "bench/owned.hpp"
#include "bench/team.hpp"
#include "bench/work.hpp"

namespace partita::bench {

/// How many ranks a benchmark runs on.
enum class Ranks : std::uint8_t { two, even, any };

/// Everything that the parts of a benchmark share. On two ranks, rank 0 sends, or begins; rank 1 receives, or answers.
struct Job {
  Job(MPI_Comm comm, const Options& options, Ranks wanted_ranks = Ranks::two);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  bool is_first() const { return rank == 0; }
  int peer() const { return 1 - rank; }  ///< of two ranks

  /// All ranks have come here. Collective.
  void barrier() const { check(PMPI_Barrier(comm), "MPI_Barrier"); }
  /// A sentence that stands in the results, once.
  void note(std::string sentence);
  /// The largest of the ranks' values, on all. Collective.
  double slowest(double value) const;
  /// Whether `flag` is set on both ranks, or on all. Collective.
  bool on_both(bool flag) const;

  Options options;
  OwnedComm own_comm;
  MPI_Comm comm;  ///< the harness's own duplicate; no subject sends on it
  int rank;
  int ranks;
  bool on_gpu = false;  ///< each rank has chosen a GPU
  Timer timer;
  Work work;
  Team team;
  std::vector<std::string> notes;
  std::vector<std::shared_ptr<void>> shared;  ///< what contenders of several cases use; ends with the job
};

}  // namespace partita::bench
