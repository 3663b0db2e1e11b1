// The C++ API: errors. <partita/partita.hpp> includes this.
#ifndef PARTITA_ERROR_HPP
#define PARTITA_ERROR_HPP

#include <mpi.h>
#include <partita/partita.h>

#include <stdexcept>
#include <string>

namespace partita {

/// What went wrong in a call: what() is the sentence that Partita_Error_string gives.
class PARTITA_EXPORT error : public std::runtime_error {
 public:
  /// The error behind `code`, which a call has returned on this thread, or put into a status.
  explicit error(int code) : std::runtime_error(sentence_of(code)), code_(code), error_class_(class_of(code)) {}

  [[nodiscard]] int code() const noexcept { return code_; }
  /// One of MPI's predefined classes, such as MPI_ERR_RANK.
  [[nodiscard]] int error_class() const noexcept { return error_class_; }

 private:
  static std::string sentence_of(int code) {
    char sentence[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    Partita_Error_string(code, sentence, &length);
    return sentence;
  }
  static int class_of(int code) {
    int error_class = MPI_ERR_UNKNOWN;
    MPI_Error_class(code, &error_class);
    return error_class;
  }

  int code_;
  int error_class_;
};

/// Throws error unless `code`, which a call has returned on this thread, is MPI_SUCCESS.
inline void check(int code) {
  if (code != MPI_SUCCESS) throw error(code);
}

/// Whether the runtime runs: handles end with it.
[[nodiscard]] inline bool is_running() noexcept {
  int running = 0;
  return Partita_Initialized(&running) == MPI_SUCCESS && running != 0;
}

}  // namespace partita
#endif
