// Ordinary persistent requests (MPI-4, section 3.9): the MPI makes and moves them, until the program has them matched.
#include <fmt/format.h>
#include <mpi.h>
#include <partita/partita.h>

#include <new>

#include "dropin/calling.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/kept.hpp"
#include "dropin/native.hpp"
#include "dropin/progress.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"

using namespace partita::dropin;

namespace {

template <class Buffer>
using Init = int (*)(Buffer, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Partita_Request*);

template <class Buffer>
class Message final : public Record {
 public:
  Message(Init<Buffer> init, Buffer buffer, MPI_Count count, MPI_Datatype datatype, int rank, int tag, MPI_Comm comm)
      : init_(init), buffer_(buffer), count_(count), datatype_(datatype), rank_(rank), tag_(tag), comm_(comm) {}

  int make(Partita_Request* made) const override {
    return init_(buffer_, count_, datatype_.moved(), rank_, tag_, comm_, made);
  }
  bool must_be_refused() const override {
    return rank_ != MPI_PROC_NULL && partita::dropin::must_be_refused(buffer_, count_);
  }

 private:
  Init<Buffer> init_;
  Buffer buffer_;
  MPI_Count count_;
  KeptType datatype_;
  int rank_;
  int tag_;
  MPI_Comm comm_;
};

/// What it has copied leaves behind its free, too.
int buffered(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
             Partita_Request* request) {
  some_may_linger();
  return Partita_Bsend_init(buf, count, datatype, dest, tag, comm, request);
}

constexpr Init<const void*> send = &Partita_Send_init;
constexpr Init<const void*> rsend = &Partita_Rsend_init;
constexpr Init<const void*> ssend = &Partita_Ssend_init;
constexpr Init<const void*> bsend = &buffered;

/// Where there is no memory for a record the request stays the MPI's for good.
template <class Buffer>
int noted(int code, const MPI_Request* request, Init<Buffer> init, Buffer buffer, MPI_Count count,
          MPI_Datatype datatype, int rank, int tag, MPI_Comm comm) {
  if (code != MPI_SUCCESS) return code;
  try {
    note_record(*request, std::make_unique<Message<Buffer>>(init, buffer, count, datatype, rank, tag, comm));
  } catch (const std::bad_alloc&) {
  }
  return MPI_SUCCESS;
}

}  // namespace

extern "C" {

#define SEND_OF(CALL, NAME, COUNT)                                                                                   \
  INTERPOSE(NAME)(const void* buf, COUNT count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,             \
                  MPI_Request* request) {                                                                            \
    return noted(native().NAME(buf, count, datatype, dest, tag, comm, request), request, CALL, buf, count, datatype, \
                 dest, tag, comm);                                                                                   \
  }
#define RECEIVE_OF(NAME, COUNT)                                                                                     \
  INTERPOSE(NAME)(void* buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,                \
                  MPI_Request* request) {                                                                           \
    return noted(native().NAME(buf, count, datatype, source, tag, comm, request), request, &Partita_Recv_init, buf, \
                 count, datatype, source, tag, comm);                                                               \
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
