#include "dropin/runtime.hpp"

#include <cstdlib>
#include <string_view>

namespace partita::dropin {
namespace {

MPI_Status made_empty_status() {
  MPI_Status status{};
  MPI_Request none = MPI_REQUEST_NULL;
  int flag = 0;
  PMPI_Test(&none, &flag, &status);
  status.MPI_ERROR = MPI_SUCCESS;
  return status;
}

constinit MPI_Status the_empty_status{};

/// All ranks come to the same answer: by the caller if one of them needs that.
int agree_on_progress() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  int by_caller = level < MPI_THREAD_MULTIPLE || caller_progress_is_set() ? 1 : 0;
  const int code = PMPI_Allreduce(MPI_IN_PLACE, &by_caller, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  internal::progress_by_caller.store(code == MPI_SUCCESS && by_caller != 0, std::memory_order_relaxed);
  return code;
}

void free_placeholders() {
  while (const RequestTable::Key key = request_table().any()) {
    MPI_Request placeholder = handle_of(key);
    request_table().erase(key);
    PMPI_Request_free(&placeholder);
  }
  close_placeholders();
}

}  // namespace

/// Partita_Init checks the variable's value.
bool caller_progress_is_set() {
  const char* setting = std::getenv("PARTITA_PROGRESS");
  return setting != nullptr && std::string_view(setting) == "caller";
}

int start_runtime() {
  if (const int code = Partita_Init(MPI_COMM_WORLD); code != MPI_SUCCESS) return code;
  the_empty_status = made_empty_status();
  if (const int code = open_placeholders(); code != MPI_SUCCESS) return code;
  return agree_on_progress();
}

int stop_runtime() {
  int started = 0;
  Partita_Initialized(&started);
  const int code = started != 0 ? Partita_Finalize() : MPI_SUCCESS;
  free_placeholders();
  internal::progress_by_caller.store(false, std::memory_order_relaxed);
  return code;
}

const MPI_Status& empty_status() {
  return the_empty_status;
}

}  // namespace partita::dropin
