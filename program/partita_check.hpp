// The check for calls of Partita's C API in the program.
#pragma once

#include <partita/partita.h>

#include <stdexcept>
#include <string>

namespace partita::program {

/// Throws the sentence behind `code` unless it is MPI_SUCCESS.
inline void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  Partita_Error_string(code, text, &length);
  throw std::runtime_error(std::string(call) + " failed: " + text);
}

}  // namespace partita::program

/// PARTITA_CHECK(Partita_Start(&request)) names the call in the error.
#define PARTITA_CHECK(call) ::partita::program::check(call, #call)
