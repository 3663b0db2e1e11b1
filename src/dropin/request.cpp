// Starting, freeing and cancelling requests of both kinds (MPI-4, sections 3.7.3, 3.8.4 and 3.9).
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/calling.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/progress.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"
#include "dropin/split.hpp"

using namespace partita::dropin;

namespace {

/// Null handles stay among the MPI's, which says what is wrong with them.
int start_all(int count, MPI_Request requests[]) {
  Scratch scratch(Split::need(count));
  const auto n = static_cast<std::size_t>(count);
  Part<Partita_Request> own{scratch.take<Partita_Request>(n), scratch.take<int>(n), 0};
  Part<MPI_Request> foreign{scratch.take<MPI_Request>(n), scratch.take<int>(n), 0};
  for (int i = 0; i < count; ++i) {
    if (const Partita_Request found = ours(requests[i]); found != PARTITA_REQUEST_NULL) {
      own.add(found, i);
    } else {
      foreign.add(requests[i], i);
    }
  }
  if (foreign.count > 0) {
    for (int i = 0; i < foreign.count; ++i) note_start(foreign.requests[i]);
    if (const int code = native().Startall(foreign.count, foreign.requests); code != MPI_SUCCESS) return code;
  }
  return own.count > 0 ? Partita_Startall(own.count, own.requests) : MPI_SUCCESS;
}

}  // namespace

extern "C" {

INTERPOSE(Start)(MPI_Request* request) {
  const Calling calling(__func__);
  Partita_Request found = ours(request);
  if (found != PARTITA_REQUEST_NULL) return Partita_Start(&found);
  if (request != nullptr) note_start(*request);
  return native().Start(request);
}

INTERPOSE(Startall)(int count, MPI_Request requests[]) {
  return guarded(__func__, [=](const char*) {
    if (count <= 0 || requests == nullptr) return native().Startall(count, requests);
    if (!nothing_is_ours()) return start_all(count, requests);
    for (int i = 0; i < count; ++i) note_start(requests[i]);
    return native().Startall(count, requests);
  });
}

INTERPOSE(Request_free)(MPI_Request* request) {
  const Calling calling(__func__);
  if (const Partita_Request found = ours(request); found != PARTITA_REQUEST_NULL) return release(found, request);
  return free_with_record(request);
}

INTERPOSE(Cancel)(MPI_Request* request) {
  const Calling calling(__func__);
  Partita_Request found = ours(request);
  return found == PARTITA_REQUEST_NULL ? native().Cancel(request) : Partita_Cancel(&found);
}

}  // extern "C"
