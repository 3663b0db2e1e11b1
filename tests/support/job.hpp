// What a test knows of the job it runs in.
#pragma once

#include <mpi.h>

#include <string>

namespace partita::test {

/// This process in MPI_COMM_WORLD, and how many there are.
int rank();
int ranks();
/// The thread level that the MPI granted; asked for was PARTITEST_THREAD_LEVEL, or MPI_THREAD_MULTIPLE.
int thread_level();

/// A communicator of the test harness: calls on it go straight to the MPI (PMPI), past the drop-in.
MPI_Comm harness_comm();
/// Barrier among all ranks that Partita does not see. Blocks without any progress of Partita's.
void harness_barrier();
/// Returns rank 0's value on all ranks.
unsigned long long from_rank_zero(unsigned long long value);

/// Says what this rank is about to do, for the watchdog's report. Any thread.
void step(std::string what);

/// The value of an environment variable as a number, or `otherwise` where it is not set.
long environment_number(const char* name, long otherwise);

}  // namespace partita::test
