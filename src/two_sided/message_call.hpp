// Which call of the MPI's a message is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace partita {

/// The nonblocking ones and, from send_init on, the persistent ones.
enum class MessageCall : std::uint8_t {
  isend,
  issend,
  irsend,
  ibsend,
  irecv,
  imrecv,
  send_init,
  ssend_init,
  rsend_init,
  bsend_init,
  recv_init,
};

inline bool is_persistent(MessageCall call) {
  return call >= MessageCall::send_init;
}

/// What is received through an `MPI_Message`.
inline bool is_matched_receive(MessageCall call) {
  return call == MessageCall::imrecv;
}
inline bool receives(MessageCall call) {
  return call == MessageCall::irecv || call == MessageCall::recv_init || is_matched_receive(call);
}

struct MessageNames {
  const char* kind;  ///< one word
  const char* call;
  const char* text;
};

inline const MessageNames& names_of(MessageCall call) {
  static constexpr std::array<MessageNames, 11> names = {
      {{"isend", "MPI_Isend", "send"},
       {"issend", "MPI_Issend", "synchronous send"},
       {"irsend", "MPI_Irsend", "ready send"},
       {"ibsend", "MPI_Ibsend", "buffered send"},
       {"irecv", "MPI_Irecv", "receive"},
       {"imrecv", "MPI_Imrecv", "receive of a probed message"},
       {"send_init", "MPI_Send_init", "persistent send"},
       {"ssend_init", "MPI_Ssend_init", "persistent synchronous send"},
       {"rsend_init", "MPI_Rsend_init", "persistent ready send"},
       {"bsend_init", "MPI_Bsend_init", "persistent buffered send"},
       {"recv_init", "MPI_Recv_init", "persistent receive"}}};
  return names[static_cast<std::size_t>(call)];
}

}  // namespace partita
