// Calls the MPI and turns a failure into an Error that names the call.
#pragma once

#include <mpi.h>

#include <string>

#include "core/error.hpp"

namespace partita {

/// The MPI's own text for `code`.
inline std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  return PMPI_Error_string(code, text, &length) == MPI_SUCCESS ? std::string(text, static_cast<std::size_t>(length))
                                                               : fmt::format("error code {}", code);
}

inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(ErrorClass::other, "the MPI failed in {}: {}", call, mpi_text(code));
}

}  // namespace partita

/// PARTITA_MPI(Comm_rank(comm, &rank)) calls PMPI_Comm_rank: Partita never calls an MPI_ name, which may be its own.
#define PARTITA_MPI(call) ::partita::check_mpi(PMPI_##call, "MPI_" #call)
