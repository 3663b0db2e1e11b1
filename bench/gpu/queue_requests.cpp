#include "bench/gpu/queue_requests.hpp"

#include "bench/partita_calls.hpp"

namespace partita::bench::gpu {

PersistentMessage::PersistentMessage(Way way, std::byte* buffer, std::int64_t size_bytes, int peer, int tag) {
  const auto init = [&](auto* function, const char* call) {
    check(function(buffer, size_bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request_), call);
  };
  if (way == Way::send) {
    init(Partita_Send_init, "Partita_Send_init");
  } else if (way == Way::ready_send) {
    init(Partita_Rsend_init, "Partita_Rsend_init");
  } else {
    init(Partita_Recv_init, "Partita_Recv_init");
  }
}

LinkUsed PersistentMessage::link_used() const {
  return PartitaCalls::link_used(request_);
}

void match(std::vector<Partita_Request> requests) {
  check(Partita_Matchall(static_cast<int>(requests.size()), requests.data()), "Partita_Matchall");
}

}  // namespace partita::bench::gpu
