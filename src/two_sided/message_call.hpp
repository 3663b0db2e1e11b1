// Which call of the MPI's a message is.
#pragma once

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

}  // namespace partita
