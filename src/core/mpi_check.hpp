// Calls the MPI and turns a failure into an Error that names the call.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/error.hpp"
#include "core/native.hpp"

namespace partita {

/// The MPI's own text for `code`.
inline std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  return native::Error_string(code, text, &length) == MPI_SUCCESS ? std::string(text, static_cast<std::size_t>(length))
                                                                  : fmt::format("error code {}", code);
}

/// The MPI's values of ErrorClass, in its order.
inline constexpr auto mpi_error_classes = std::to_array<int>(
    {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_OP,
     MPI_ERR_TOPOLOGY, MPI_ERR_REQUEST, MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_ERR_INFO, MPI_ERR_INFO_KEY,
     MPI_ERR_INFO_VALUE, MPI_ERR_TRUNCATE, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_INTERN});
static_assert(mpi_error_classes.size() == error_class_count);

/// The ErrorClass of one of the MPI's classes; `other` for those that Partita does not report.
inline ErrorClass error_class_of(int mpi_class) {
  const auto found = std::find(mpi_error_classes.begin(), mpi_error_classes.end(), mpi_class);
  return found != mpi_error_classes.end() ? static_cast<ErrorClass>(found - mpi_error_classes.begin())
                                          : ErrorClass::other;
}

/// The error keeps the class that the MPI gives it: a handle of the program's that is none is MPI_ERR_COMM here too.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  int mpi_class = MPI_ERR_OTHER;
  native::Error_class(code, &mpi_class);
  throw Error(error_class_of(mpi_class), "the MPI failed in {}: {}", call, mpi_text(code));
}

}  // namespace partita

/// PARTITA_MPI(Comm_rank(comm, &rank)) calls PMPI_Comm_rank.
#define PARTITA_MPI(call) ::partita::check_mpi(::partita::native::call, "MPI_" #call)
