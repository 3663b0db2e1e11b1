// The ranks that an app runs on.
#pragma once

#include <mpi.h>

namespace partita::apps {

/// A copy of the job's communicator. To make one and to end it is collective.
class Job {
 public:
  Job() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
  }
  ~Job() { MPI_Comm_free(&comm_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace partita::apps
