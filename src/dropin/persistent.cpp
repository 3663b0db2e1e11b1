// Ordinary persistent requests (MPI-4, section 3.9): the MPI makes and moves them, until the program has them matched.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/records.hpp"

using namespace partita::dropin;

namespace {

int noted(int code, const MPI_Request* request, const Record& record) {
  if (code == MPI_SUCCESS) note_record(*request, record);
  return code;
}

}  // namespace

extern "C" {

#define SEND_OF(CALL, NAME, COUNT)                                                                       \
  INTERPOSE(NAME)(const void* buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
                  MPI_Request* request) {                                                                \
    return noted(native().NAME(buf, count, datatype, dest, tag, comm, request), request,                 \
                 {Record::Call::CALL, const_cast<void*>(buf), count, datatype, dest, tag, comm});        \
  }
#define RECEIVE_OF(NAME, COUNT)                                                                      \
  INTERPOSE(NAME)(void* buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, \
                  MPI_Request* request) {                                                            \
    return noted(native().NAME(buf, count, datatype, source, tag, comm, request), request,           \
                 {Record::Call::recv, buf, count, datatype, source, tag, comm});                     \
  }

#define SEND(CALL, NAME) SEND_OF(CALL, NAME, int)
#include "dropin/persistent_calls.inc"
#undef SEND
RECEIVE_OF(Recv_init, int)

#if PARTITA_HAS_LARGE_COUNTS
#define SEND(CALL, NAME) SEND_OF(CALL, NAME##_c, MPI_Count)
#include "dropin/persistent_calls.inc"
#undef SEND
RECEIVE_OF(Recv_init_c, MPI_Count)
#endif

}  // extern "C"
