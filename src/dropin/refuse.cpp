#include "dropin/refuse.hpp"

#include <fmt/format.h>
#include <partita/partita.h>

#include <array>

#include "dropin/records.hpp"

namespace partita::dropin {
int refuse(int error_class, const std::string& sentence) {
  return Partita_Raise(MPI_COMM_SELF, error_class, sentence.c_str());
}

int refuse_foreign(const char* call, MPI_Request handle) {
  const char* const what = handle == MPI_REQUEST_NULL ? "MPI_REQUEST_NULL"
                           : find_record(handle) ? "a persistent one of the MPI's, not matched, and has no partitions"
                                                 : "not a partitioned one (freed, or made by another call)";
  return refuse(
      MPI_ERR_REQUEST,
      fmt::format("{}: the request is {}, but expected is a live one made by MPI_Psend_init or MPI_Precv_init", call,
                  what));
}

int refuse_for_memory(const char* call) {
  std::array<char, 128> sentence{};
  fmt::format_to_n(sentence.data(), sentence.size() - 1, "{}: no memory is left for its requests", call);
  return Partita_Raise(MPI_COMM_SELF, MPI_ERR_NO_MEM, sentence.data());
}

int refuse_null_pointer(const char* call, const char* argument) {
  return refuse(MPI_ERR_ARG, fmt::format("{}: the pointer {} is null", call, argument));
}

int refuse_missing_status(const char* call, const char* argument, const char* ignore) {
  return refuse(MPI_ERR_ARG,
                fmt::format("{}: argument {} is null; expected is a place for it or {}", call, argument, ignore));
}

}  // namespace partita::dropin
