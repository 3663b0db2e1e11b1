// Buffers of MPI_Bsend: they are detached, or flushed, when the messages in them have left (MPI-4.1, section 3.6).
// Their receivers may wait for Partita meanwhile.
#include <mpi.h>

#include "dropin/aside.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"

namespace {

using namespace partita::dropin;

#if PARTITA_HAS_BUFFER_IFLUSH
/// Does `call()`, before which it flushes by the MPI's nonblocking `flush` and polls.
template <class Flush, class Call>
int after_flush(Flush flush, Call call) {
  if (!must_poll()) return call();
  MPI_Request request = MPI_REQUEST_NULL;
  int code = flush(&request);
  if (code == MPI_SUCCESS) code = wait_polling(&request, MPI_STATUS_IGNORE);
  return code == MPI_SUCCESS ? call() : code;
}

/// Makes `call` once everything in the process's buffer was sent.
template <class Call>
int when_sent(Call call) {
  return after_flush(native().Buffer_iflush, call);
}

/// Makes `call` once everything in the communicator's buffer was sent.
template <class Call>
int when_sent(MPI_Comm comm, Call call) {
  return after_flush([&](MPI_Request* request) { return native().Comm_iflush_buffer(comm, request); }, call);
}
#else
template <class Call>
int when_sent(Call call) {
  return call_aside(call);
}
#endif

}  // namespace

extern "C" {

INTERPOSE(Buffer_detach)(void* buffer_addr, int* size) {
  return when_sent([&] { return native().Buffer_detach(buffer_addr, size); });
}

#if PARTITA_HAS_LARGE_COUNTS
INTERPOSE(Buffer_detach_c)(void* buffer_addr, MPI_Count* size) {
  return when_sent([&] { return native().Buffer_detach_c(buffer_addr, size); });
}
#endif

#if PARTITA_HAS_BUFFER_IFLUSH
INTERPOSE(Buffer_flush)() {
  return when_sent([] { return native().Buffer_flush(); });
}

INTERPOSE(Comm_detach_buffer)(MPI_Comm comm, void* buffer_addr, int* size) {
  return when_sent(comm, [&] { return native().Comm_detach_buffer(comm, buffer_addr, size); });
}

INTERPOSE(Comm_detach_buffer_c)(MPI_Comm comm, void* buffer_addr, MPI_Count* size) {
  return when_sent(comm, [&] { return native().Comm_detach_buffer_c(comm, buffer_addr, size); });
}

INTERPOSE(Comm_flush_buffer)(MPI_Comm comm) {
  return when_sent(comm, [&] { return native().Comm_flush_buffer(comm); });
}
#endif

}  // extern "C"
