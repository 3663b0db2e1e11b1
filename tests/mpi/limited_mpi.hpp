// An MPI that gives less than MPI_THREAD_MULTIPLE, whatever it is asked for.
#pragma once

namespace partita::test {

/// The highest thread level that the MPI gives in this process: PARTITEST_MPI_GIVES (funneled or serialized), or
/// MPI_THREAD_MULTIPLE where that is not set.
int most_of_mpi();

}  // namespace partita::test
