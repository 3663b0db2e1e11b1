// The C face of nonblocking messages (MPI-4, sections 3.7.2 and 3.8.2).
#include <memory>
#include <utility>

#include "two_sided/message_operation.hpp"

#include "capi/gpu_aware.hpp"
#include "capi/requests.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

int make_message(const char* name, const TwoSidedArguments& arguments, Partita_Request* request) {
  const MPI_Comm comm = arguments.call == MessageCall::imrecv ? MPI_COMM_SELF : arguments.comm;
  return make_request(name, comm, request, [&](Runtime& current) {
    // The one of a matched message nobody may know; errors are raised on `comm`.
    std::shared_ptr<Communicator> communicator = is_matched_receive(arguments.call)
                                                     ? current.matched_messages.take(arguments.message)
                                                     : current.communicators.find_if_known(comm);
    auto message =
        make_message_operation(current.offers, current.gpu_lanes, arguments, MayOffer::yes, std::move(communicator));
    message->loop_watch().begin();
    return message;
  });
}

int make_for(const char* name, MessageCall call, const void* buf, MPI_Count count, MPI_Datatype datatype, int rank,
             int tag, MPI_Comm comm, Partita_Request* request) {
  auto* const buffer = static_cast<std::byte*>(const_cast<void*>(buf));
  return make_message(name, {call, buffer, count, datatype, rank, tag, comm, nullptr}, request);
}

}  // namespace

int Partita_Isend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  Partita_Request* request) {
  return make_for("Isend", MessageCall::isend, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Issend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   Partita_Request* request) {
  return make_for("Issend", MessageCall::issend, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Irsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   Partita_Request* request) {
  return make_for("Irsend", MessageCall::irsend, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Ibsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   Partita_Request* request) {
  return make_for("Ibsend", MessageCall::ibsend, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Irecv(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                  Partita_Request* request) {
  return make_for("Irecv", MessageCall::irecv, buf, count, datatype, source, tag, comm, request);
}

int Partita_Imrecv(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, Partita_Request* request) {
  return make_message("Imrecv",
                      {MessageCall::imrecv, static_cast<std::byte*>(buf), count, datatype, MPI_ANY_SOURCE, MPI_ANY_TAG,
                       MPI_COMM_NULL, message},
                      request);
}

int Partita_Staged_init(MessageCall call, const void* buf, MPI_Count count, MPI_Datatype datatype, int rank, int tag,
                        MPI_Comm comm, Partita_Request* request) {
  return make_for("Staged_init", call, buf, count, datatype, rank, tag, comm, request);
}

int Partita_Cancel(Partita_Request* request) {
  const Partita_Request handle = request == nullptr ? PARTITA_REQUEST_NULL : *request;
  return on_request("Cancel", handle, [&] { operation_of(handle).cancel(); });
}
