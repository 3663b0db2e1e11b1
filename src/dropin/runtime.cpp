#include "dropin/runtime.hpp"

#include <array>

#include "dropin/gathering.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/native.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"

namespace partita::dropin {
namespace {

MPI_Status made_empty_status() {
  MPI_Status status{};
  MPI_Request none = MPI_REQUEST_NULL;
  int flag = 0;
  native().Test(&none, &flag, &status);
  status.MPI_ERROR = MPI_SUCCESS;
  return status;
}

constinit MPI_Status the_empty_status{};

/// All ranks come to the same answer: by the caller if one of them needs that, and an error if one of them had
/// `own_code`.
int agree_on_progress(int own_code) {
  int level = MPI_THREAD_SINGLE;
  native().Query_thread(&level);
  std::array<int, 2> any = {level < MPI_THREAD_MULTIPLE || caller_progress_is_set() ? 1 : 0,
                            own_code != MPI_SUCCESS ? 1 : 0};
  const int code = native().Allreduce(MPI_IN_PLACE, any.data(), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  const auto [by_caller, failed] = any;
  internal::progress_by_caller.store(code == MPI_SUCCESS && by_caller != 0, std::memory_order_relaxed);
  if (code != MPI_SUCCESS || failed == 0) return code;
  if (own_code != MPI_SUCCESS) return own_code;
  return refuse(MPI_ERR_OTHER, "MPI_Init: another rank could not make its communicators of waits and of offers");
}

void free_placeholders() {
  while (const RequestTable::Key key = request_table().any()) {
    MPI_Request placeholder = handle_of(key);
    request_table().erase(key);
    free_placeholder(&placeholder);
  }
  close_silent_comm();
}

}  // namespace

int start_runtime() {
  if (const int code = Partita_Init(MPI_COMM_WORLD); code != MPI_SUCCESS) return code;
  the_empty_status = made_empty_status();
  const int offers_code = open_gpu_awareness();
  const int handles_code = open_silent_comm();
  const int code = agree_on_progress(offers_code != MPI_SUCCESS ? offers_code : handles_code);
  return code == MPI_SUCCESS ? open_meetings() : code;
}

int stop_runtime() {
  close_gpu_awareness();
  int started = 0;
  Partita_Initialized(&started);
  const int code = started != 0 ? Partita_Finalize() : MPI_SUCCESS;
  free_placeholders();
  close_records();
  close_meetings();
  internal::progress_by_caller.store(false, std::memory_order_relaxed);
  return code;
}

const MPI_Status& empty_status() {
  return the_empty_status;
}

}  // namespace partita::dropin
