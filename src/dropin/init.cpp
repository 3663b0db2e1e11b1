// MPI_Init, MPI_Init_thread, MPI_Finalize (MPI-4, sections 11.2 and 11.6).
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "core/which_mpi.hpp"
#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/runtime.hpp"

using namespace partita::dropin;

namespace {

/// What the program hears of: the lesser of what it asked for and what the MPI gave, as an MPI would say. -1 while
/// the MPI was not started here.
constinit std::atomic<int> reported_level{-1};

/// Makes an Open MPI that is not yet started access files by ROMIO rather than by OMPIO. In OMPIO (4.1, 5.0) two
/// threads that call the MPI while a nonblocking or split access is under way free the same memory. Only a preference:
/// what the user has chosen (OMPI_MCA_io) stays, and an Open MPI without ROMIO takes no notice.
void prefer_file_access_that_takes_threads() {
  if constexpr (partita::built_for != partita::MpiFamily::open_mpi) return;
  constexpr std::array priorities = {"OMPI_MCA_io_romio314_priority", "OMPI_MCA_io_romio321_priority",
                                     "OMPI_MCA_io_romio341_priority"};
  constexpr const char* above_the_other = "100";
  constexpr int if_not_set = 0;
  for (const char* priority : priorities) setenv(priority, above_the_other, if_not_set);
}

/// The MPI is asked for MPI_THREAD_MULTIPLE, so that a thread of Partita's can make progress beside the program's;
/// where the program's calls shall do that, for no more than the program asks for.
int start(int* argc, char*** argv, int required, int* provided) {
  const bool by_caller = partita::dropin::caller_progress_is_set();
  if (!by_caller) prefer_file_access_that_takes_threads();
  const int level = by_caller ? required : MPI_THREAD_MULTIPLE;
  if (const int code = native().Init_thread(argc, argv, level, provided); code != MPI_SUCCESS) return code;
  *provided = std::min(*provided, required);
  reported_level.store(*provided, std::memory_order_relaxed);
  return partita::dropin::start_runtime();
}

}  // namespace

extern "C" {

INTERPOSE(Init)(int* argc, char*** argv) {
  const Calling calling(__func__);
  int provided = MPI_THREAD_SINGLE;
  return start(argc, argv, MPI_THREAD_SINGLE, &provided);
}

INTERPOSE(Init_thread)(int* argc, char*** argv, int required, int* provided) {
  const Calling calling(__func__);
  return start(argc, argv, required, provided);
}

/// The MPI answers first: it knows what is wrong with the call.
INTERPOSE(Query_thread)(int* provided) {
  const int code = native().Query_thread(provided);
  const int reported = reported_level.load(std::memory_order_relaxed);
  if (code == MPI_SUCCESS && reported >= 0) *provided = reported;
  return code;
}

INTERPOSE(Finalize)(void) {
  const Calling calling(__func__);
  const int own_code = partita::dropin::stop_runtime();
  const int code = native().Finalize();
  return own_code != MPI_SUCCESS ? own_code : code;
}

}  // extern "C"
