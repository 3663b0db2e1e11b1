// Checks what a program passes to Psend_init and Precv_init.
#pragma once

#include <mpi.h>

#include "partitioned/request.hpp"
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

/// Throws Error on the first argument that is wrong; each sentence names it, its value and what was expected.
RequestArguments checked(Runtime& runtime, Side side, const RawArguments& raw);

/// The key under which the request meets its peer; draws its ordinal.
MatchKey key_of(const Runtime& runtime, const RequestArguments& arguments);
/// The request was not made after all: the next one gets the place, unless another thread has drawn one meanwhile.
void give_back(const MatchKey& key, const RequestArguments& arguments);

}  // namespace partita::capi
