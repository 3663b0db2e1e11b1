#include "dropin/refuse.hpp"

#include <fmt/format.h>
#include <partita/partita.h>

namespace partita::dropin {
int refuse(int error_class, const std::string& sentence) {
  return Partita_Raise(MPI_COMM_SELF, error_class, sentence.c_str());
}

int refuse_foreign(const char* call, MPI_Request handle) {
  return refuse(
      MPI_ERR_REQUEST,
      fmt::format(
          "{}: the request is {}, but expected is a live one made by MPI_Psend_init or MPI_Precv_init", call,
          handle == MPI_REQUEST_NULL ? "MPI_REQUEST_NULL" : "not a partitioned one (freed, or made by another call)"));
}

int refuse_null_pointer(const char* call, const char* argument) {
  return refuse(MPI_ERR_ARG, fmt::format("{}: the pointer {} is null", call, argument));
}

int refuse_missing_status(const char* call, const char* argument, const char* ignore) {
  return refuse(MPI_ERR_ARG,
                fmt::format("{}: argument {} is null; expected is a place for it or {}", call, argument, ignore));
}

}  // namespace partita::dropin
