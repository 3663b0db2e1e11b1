// Ordinary persistent requests (MPI-4, section 3.9): the MPI makes and moves them, until the program has them matched.
// Each start of one in GPU memory is staged (docs/design/gpu-aware.md).
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
#include "dropin/requests.hpp"

using namespace partita::dropin;
using partita::MessageCall;

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

/// The MPI's request, made by `call_mpi()`; or one of ours that has it: in GPU memory, and for what may get an offer.
template <class Call>
int made(const char* name, MessageCall call, const void* buffer, MPI_Count count, MPI_Datatype datatype, int rank,
         int tag, MPI_Comm comm, MPI_Request* request, Call call_mpi) {
  if (rank == MPI_PROC_NULL) return call_mpi();
  const bool is_ours =
      partita::receives(call) ? receives_here(buffer, count, datatype) : is_in_gpu(buffer, count, datatype);
  if (!is_ours) return call_mpi();
  const Calling calling(name);
  if (request == nullptr) return refuse_null_pointer(name, "request");
  some_may_linger();  // it may be freed while it is active
  Partita_Request staged = PARTITA_REQUEST_NULL;
  const int code = Partita_Staged_init(call, buffer, count, datatype, rank, tag, comm, &staged);
  return code == MPI_SUCCESS ? adopt(staged, request) : code;
}

/// Where there is no memory for a record the request cannot be matched.
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

/// Both kinds, and what makes one anew.
#define MESSAGE_OF(CALL, INIT, NAME, BUFFER, COUNT)                                                           \
  INTERPOSE(NAME)(BUFFER buf, COUNT count, MPI_Datatype datatype, int peer, int tag, MPI_Comm comm,           \
                  MPI_Request* request) {                                                                     \
    const int code = made(__func__, MessageCall::CALL##_init, buf, count, datatype, peer, tag, comm, request, \
                          [&] { return native().NAME(buf, count, datatype, peer, tag, comm, request); });     \
    return noted<BUFFER>(code, request, INIT, buf, count, datatype, peer, tag, comm);                         \
  }

#define SEND(CALL, NAME) MESSAGE_OF(CALL, CALL, NAME, const void*, int)
#include "dropin/persistent_calls.inc"
#undef SEND
MESSAGE_OF(recv, &Partita_Recv_init, Recv_init, void*, int)

#if PARTITA_HAS_LARGE_COUNTS
#define SEND(CALL, NAME) MESSAGE_OF(CALL, CALL, NAME##_c, const void*, MPI_Count)
#include "dropin/persistent_calls.inc"
#undef SEND
MESSAGE_OF(recv, &Partita_Recv_init, Recv_init_c, void*, MPI_Count)
#endif
#undef MESSAGE_OF

}  // extern "C"
