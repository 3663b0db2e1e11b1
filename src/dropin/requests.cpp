#include "dropin/requests.hpp"

#include <new>

#include "capi/gpu_aware.hpp"
#include "dropin/calling.hpp"
#include "dropin/native.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"

namespace partita::dropin {
namespace {

/// Where nothing is ever sent.
constinit MPI_Comm silent_comm = MPI_COMM_NULL;

}  // namespace

int open_silent_comm() {
  return native().Comm_dup(MPI_COMM_SELF, &silent_comm);
}

void close_silent_comm() {
  if (silent_comm != MPI_COMM_NULL) native().Comm_free(&silent_comm);
}

void make_mpi_progress() {
  int found = 0;
  native().Iprobe(0, 0, silent_comm, &found, MPI_STATUS_IGNORE);
}

/// Nothing natively completes it before it is freed: a program, a tool or a language binding that reaches the MPI past
/// the drop-in is never told that a request of ours is complete. And it stands in no queue of the MPI's, which looks
/// through all receives that are posted for each message that comes.
int make_placeholder(MPI_Request* placeholder) {
  return native().Grequest_start([](void*, MPI_Status*) { return MPI_SUCCESS; }, [](void*) { return MPI_SUCCESS; },
                                 [](void*, int) { return MPI_SUCCESS; }, nullptr, placeholder);
}

int free_placeholder(MPI_Request* placeholder) {
  const int completed = native().Grequest_complete(*placeholder);
  const int freed = native().Request_free(placeholder);
  return completed != MPI_SUCCESS ? completed : freed;
}

int reserve(MPI_Request* handle) {
  MPI_Request placeholder = MPI_REQUEST_NULL;
  if (const int code = make_placeholder(&placeholder); code != MPI_SUCCESS) return code;
  try {
    request_table().insert(key_of(placeholder), PARTITA_REQUEST_NULL);
  } catch (const std::bad_alloc&) {
    free_placeholder(&placeholder);
    return refuse_for_memory(Calling::current());
  }
  *handle = placeholder;
  return MPI_SUCCESS;
}

void stand_for(MPI_Request handle, Partita_Request request) {
  request_table().insert(key_of(handle), request);
}

int adopt(Partita_Request request, MPI_Request* handle) {
  const int code = reserve(handle);
  if (code == MPI_SUCCESS) {
    stand_for(*handle, request);
  } else {
    Partita_Request_free(&request);
  }
  return code;
}

int forget(MPI_Request* handle) {
  // The entry first: once the placeholder is free, the MPI may give its handle value to anyone.
  request_table().erase(key_of(*handle));
  drop_record(*handle);
  return free_placeholder(handle);
}

void end_if_spent(MPI_Request* handle) {
  const Partita_Request found = ours(handle);
  if (Partita_is_spent(found) != 0) release(found, handle);
}

int release(Partita_Request request, MPI_Request* handle) {
  const int code = Partita_Request_free(&request);
  if (request != PARTITA_REQUEST_NULL) return code;  // refused; an error may also come of one that is gone
  const int placeholder_code = forget(handle);
  return code != MPI_SUCCESS ? code : placeholder_code;
}

}  // namespace partita::dropin
