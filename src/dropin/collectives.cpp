// Partitioned collectives on MPI_Request (partita/mpix.h).
#include <mpi.h>
#include <partita/mpix.h>
#include <partita/partita.h>

#include "dropin/calling.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

using namespace partita::dropin;

extern "C" {

#define COLLECTIVE_CALL(NAME, PARAMETERS, ...)                                    \
  int Partita_mpi_##NAME PARAMETERS {                                             \
    const Calling calling("MPIX_" #NAME);                                         \
    if (request == nullptr) return refuse_null_pointer("MPIX_" #NAME, "request"); \
    Partita_Request made = PARTITA_REQUEST_NULL;                                  \
    const int code = Partita_##NAME(__VA_ARGS__, &made);                          \
    return code == MPI_SUCCESS ? adopt(made, request) : code;                     \
  }

#include "dropin/collective_calls.inc"

}  // extern "C"
