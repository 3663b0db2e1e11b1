// Buffers in GPU memory where neither the MPI takes them nor Partita: an error (docs/design/gpu-aware.md, "What is
// refused").
#pragma once

#include <mpi.h>

#include <array>
#include <span>

#include "dropin/gpu_aware.hpp"

namespace partita::dropin {

/// The one whose error handler hears of a refusal: `{.window = window}`.
struct Hearer {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;
  MPI_File file = MPI_FILE_NULL;
};

/// What a call moves in the buffer that the standard calls `argument`.
struct HostBuffer {
  const char* argument;
  const void* address;
  MPI_Count count;
  MPI_Datatype datatype;
};
#define HOST_BUFFER(ARGUMENT, COUNT_THERE, DATATYPE) \
  HostBuffer {                                       \
    #ARGUMENT, ARGUMENT, COUNT_THERE, DATATYPE       \
  }

/// How much of `count` elements a one-sided call moves whose target is `rank`.
inline MPI_Count if_somebody(int rank, MPI_Count count) {
  return rank == MPI_PROC_NULL ? 0 : count;
}
/// How much of `count` elements at the origin it reads there.
inline MPI_Count if_read(MPI_Op op, int rank, MPI_Count count) {
  return op == MPI_NO_OP ? 0 : if_somebody(rank, count);
}

namespace internal {
int refuse_those_in_gpu(const char* call, const Hearer& hearer, std::span<const HostBuffer> buffers);
}  // namespace internal

/// MPI_SUCCESS where Partita does not look at GPU memory or no buffer has elements there. Otherwise `hearer`'s error
/// handler has heard of the first that has, and the call shall return the code. Where `hearer` is a null handle, the
/// MPI's own call says what is wrong with it. One load where Partita does not look.
template <class... Buffers>
int refuse_gpu_memory(const char* call, const Hearer& hearer, const Buffers&... buffers) {
  if (!takes_gpu_memory()) return MPI_SUCCESS;
  const std::array<HostBuffer, sizeof...(Buffers)> all{buffers...};
  return internal::refuse_those_in_gpu(call, hearer, all);
}

}  // namespace partita::dropin
