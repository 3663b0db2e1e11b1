// MPI_Init, MPI_Init_thread, MPI_Finalize (MPI-4, sections 11.2 and 11.6).
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/runtime.hpp"

namespace {

/// The MPI is asked for MPI_THREAD_MULTIPLE, so that a thread of Partita's can make progress beside the program's;
/// where the program's calls shall do that, for no more than the program asks for.
int start(int* argc, char*** argv, int required, int* provided) {
  const int level = partita::dropin::caller_progress_is_set() ? required : MPI_THREAD_MULTIPLE;
  if (const int code = PMPI_Init_thread(argc, argv, level, provided); code != MPI_SUCCESS) return code;
  return partita::dropin::start_runtime();
}

}  // namespace

extern "C" {

PARTITA_EXPORT int MPI_Init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  return start(argc, argv, MPI_THREAD_SINGLE, &provided);
}

/// `*provided` is what the MPI gave, which may be more than `required`.
PARTITA_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return start(argc, argv, required, provided);
}

PARTITA_EXPORT int MPI_Finalize(void) {
  const int own_code = partita::dropin::stop_runtime();
  const int code = PMPI_Finalize();
  return own_code != MPI_SUCCESS ? own_code : code;
}

}  // extern "C"
