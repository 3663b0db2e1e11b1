// Partita's C API as a set of partitioned calls.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include "bench/subject.hpp"

namespace partita::bench {

struct PartitaCalls {
  using Request = Partita_Request;

  static constexpr auto psend_init = Partita_Psend_init;
  static constexpr auto precv_init = Partita_Precv_init;
  static constexpr auto start = Partita_Start;
  static constexpr auto pready = Partita_Pready;
  static constexpr auto parrived = Partita_Parrived;
  static constexpr auto wait = Partita_Wait;
  static constexpr auto request_free = Partita_Request_free;

  /// What Partita_Request_get_info says of a matched request.
  static LinkUsed link_used(Partita_Request request);
};

}  // namespace partita::bench
