// Checks what a program passes to Psend_init and Precv_init.
#pragma once

#include <mpi.h>

#include "partitioned/message.hpp"
#include "runtime/runtime.hpp"

namespace partita::capi {

/// As passed by the program.
struct RawArguments {
  void* buffer;
  int partitions;
  MPI_Count count;
  MPI_Datatype datatype;
  int rank;
  int tag;
  MPI_Comm comm;
  MPI_Info info;
};

/// Throws Error unless argument `name` is a committed datatype.
void check_datatype(const Runtime& runtime, const char* name, MPI_Datatype datatype);

/// Throws Error on the first argument that is wrong; each sentence names it, its value and what was expected.
RequestArguments checked(Runtime& runtime, Side side, const RawArguments& raw);

}  // namespace partita::capi
