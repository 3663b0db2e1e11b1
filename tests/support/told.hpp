// What the C API tells of a request and of an error, for tests without the drop-in.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <string>

namespace partita::test {

/// The value of `key` in what Request_get_info tells of `request`; empty where it tells nothing.
inline std::string told(Partita_Request request, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_EQ(Partita_Request_get_info(request, &info), MPI_SUCCESS);
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
  PMPI_Info_free(&info);
  return found != 0 ? value : "";
}

/// The sentence behind an error code of a call.
inline std::string told_by(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  Partita_Error_string(code, text, &length);
  return text;
}

}  // namespace partita::test
