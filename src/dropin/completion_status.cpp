// MPI_Request_get_status_all, _any and _some on arrays that mix both kinds of requests (MPI-4.1, section 3.7.6).
#include <mpi.h>
#include <partita/partita.h>

#include <cstring>

#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/runtime.hpp"
#include "dropin/split.hpp"

#if PARTITA_HAS_REQUEST_GET_STATUS_SOME

namespace partita::dropin {
namespace {

/// Whether `request` is between its start and the call that completes it.
bool is_active(Partita_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  if (Partita_Request_get_info(request, &info) != MPI_SUCCESS) return false;
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  native().Info_get(info, "partita_active", MPI_MAX_INFO_VAL, value, &found);
  native().Info_free(&info);
  return found != 0 && std::strcmp(value, "true") == 0;
}

/// What one look at one request found.
struct State {
  int code = MPI_SUCCESS;
  bool active = false;
  bool complete = false;  ///< active, and a test would complete it; `*status` is set
};

State state_of(MPI_Request request, MPI_Status* status) {
  const Partita_Request found = ours(request);
  int flag = 0;
  if (found != PARTITA_REQUEST_NULL) {
    const int code = Partita_Request_get_status(found, &flag, status);
    const bool active = code != MPI_SUCCESS || flag == 0 || is_active(found);
    return {code, active, active && flag != 0};
  }
  int index = MPI_UNDEFINED;
  const int code = native().Request_get_status_any(1, &request, &index, &flag, status);
  const bool active = code != MPI_SUCCESS || flag == 0 || index != MPI_UNDEFINED;
  return {code, active, active && flag != 0};
}

int all_statuses(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  if (are_missing(statuses))
    return refuse_missing_status("MPI_Request_get_status_all", "statuses", "MPI_STATUSES_IGNORE");
  progress_if_by_caller();
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    const Partita_Request found = ours(requests[i]);
    int complete = 0;
    const int code = found != PARTITA_REQUEST_NULL
                         ? Partita_Request_get_status(found, &complete, status_at(statuses, i))
                         : native().Request_get_status(requests[i], &complete, status_at(statuses, i));
    if (code != MPI_SUCCESS) return code;
    if (complete == 0) *flag = 0;
  }
  return MPI_SUCCESS;
}

int any_status(int count, const MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  if (is_missing(status)) return refuse_missing_status("MPI_Request_get_status_any", "status", "MPI_STATUS_IGNORE");
  progress_if_by_caller();
  *index = MPI_UNDEFINED;
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    const State state = state_of(requests[i], status);
    if (state.complete || state.code != MPI_SUCCESS) {
      *index = i;
      *flag = 1;
      return state.code;
    }
    if (state.active) *flag = 0;
  }
  if (*flag != 0) give_status(status, empty_status());
  return MPI_SUCCESS;
}

int some_statuses(int count, const MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  if (are_missing(statuses))
    return refuse_missing_status("MPI_Request_get_status_some", "statuses", "MPI_STATUSES_IGNORE");
  progress_if_by_caller();
  int found = 0;
  bool any_active = false;
  for (int i = 0; i < count; ++i) {
    const State state = state_of(requests[i], status_at(statuses, found));
    if (state.code != MPI_SUCCESS) return state.code;
    any_active |= state.active;
    if (state.complete) indices[found++] = i;
  }
  *outcount = any_active ? found : MPI_UNDEFINED;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace partita::dropin

extern "C" {

INTERPOSE(Request_get_status_all)(int count, const MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  using namespace partita::dropin;
  const Calling calling(__func__);
  const bool plain = nothing_is_ours() || count <= 0 || requests == nullptr || flag == nullptr;
  return plain ? native().Request_get_status_all(count, requests, flag, statuses)
               : all_statuses(count, requests, flag, statuses);
}

INTERPOSE(Request_get_status_any)(int count, const MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  using namespace partita::dropin;
  const Calling calling(__func__);
  const bool plain = nothing_is_ours() || count <= 0 || requests == nullptr || index == nullptr || flag == nullptr;
  return plain ? native().Request_get_status_any(count, requests, index, flag, status)
               : any_status(count, requests, index, flag, status);
}

INTERPOSE(Request_get_status_some)(int incount, const MPI_Request requests[], int* outcount, int indices[],
                                   MPI_Status statuses[]) {
  using namespace partita::dropin;
  const Calling calling(__func__);
  const bool plain =
      nothing_is_ours() || incount <= 0 || requests == nullptr || outcount == nullptr || indices == nullptr;
  return plain ? native().Request_get_status_some(incount, requests, outcount, indices, statuses)
               : some_statuses(incount, requests, outcount, indices, statuses);
}

}  // extern "C"

#endif
