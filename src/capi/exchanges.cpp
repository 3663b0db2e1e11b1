// Sends with receives behind one request, where messages may be offers.
#include <memory>
#include <utility>

#include "capi/gpu_aware.hpp"
#include "capi/requests.hpp"
#include "two_sided/exchange.hpp"
#include "two_sided/message_operation.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

std::byte* bytes_at(const void* address) {
  return static_cast<std::byte*>(const_cast<void*>(address));
}

std::unique_ptr<Operation> receive_of(Runtime& current, void* in, MPI_Count count, MPI_Datatype type, int source,
                                      int tag, MPI_Comm comm, const std::shared_ptr<Communicator>& communicator) {
  return make_message_operation(current.offers, current.gpu_lanes,
                                {MessageCall::irecv, bytes_at(in), count, type, source, tag, comm, nullptr},
                                MayOffer::no, communicator);
}

std::unique_ptr<Operation> exchange_of(std::unique_ptr<Operation> receive, std::unique_ptr<Operation> send,
                                       std::unique_ptr<std::byte[]> sent, std::shared_ptr<Communicator> communicator) {
  auto exchange =
      std::make_unique<Exchange>(std::move(receive), std::move(send), std::move(sent), std::move(communicator));
  exchange->loop_watch().begin();
  return exchange;
}

}  // namespace

int Partita_Isendrecv(const void* out, MPI_Count out_count, MPI_Datatype out_type, int dest, int out_tag, void* in,
                      MPI_Count in_count, MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm,
                      Partita_Request* request) {
  return make_request("Isendrecv", comm, request, [&](Runtime& current) {
    const auto communicator = current.communicators.find_if_known(comm);
    auto send =
        make_message_operation(current.offers, current.gpu_lanes,
                               {MessageCall::isend, bytes_at(out), out_count, out_type, dest, out_tag, comm, nullptr},
                               MayOffer::yes, communicator);
    auto receive = receive_of(current, in, in_count, in_type, source, in_tag, comm, communicator);
    return exchange_of(std::move(receive), std::move(send), nullptr, communicator);
  });
}

/// In host memory the bytes are packed; out of a GPU the send, which is no offer, stages them anyway.
int Partita_Isendrecv_replace(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int out_tag, int source,
                              int in_tag, MPI_Comm comm, Partita_Request* request) {
  return make_request("Isendrecv_replace", comm, request, [&](Runtime& current) {
    const auto communicator = current.communicators.find_if_known(comm);
    TwoSidedArguments sent{MessageCall::isend, bytes_at(buf), count, datatype, dest, out_tag, comm, nullptr};
    std::unique_ptr<std::byte[]> packed;
    const bool is_in_gpu = place_of_elements(*current.device_memory, buf, count, datatype).kind == memory::Kind::device;
    if (!is_in_gpu && count > 0 && datatype != MPI_DATATYPE_NULL) {
      const Layout layout = Layout::of(datatype);
      sent.count = count * layout.size_bytes();
      sent.datatype = MPI_PACKED;
      packed.reset(new std::byte[static_cast<std::size_t>(sent.count)]);
      layout.pack(bytes_at(buf), 0, count, packed.get());
      sent.buffer = packed.get();
    }
    auto send = make_message_operation(current.offers, current.gpu_lanes, sent, MayOffer::no, communicator);
    auto receive = receive_of(current, buf, count, datatype, source, in_tag, comm, communicator);
    return exchange_of(std::move(receive), std::move(send), std::move(packed), communicator);
  });
}
