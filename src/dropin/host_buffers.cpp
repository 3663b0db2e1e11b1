#include "dropin/host_buffers.hpp"

#include <fmt/format.h>

#include <string>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/refuse.hpp"

namespace partita::dropin::internal {
namespace {

bool is_nobody(const Hearer& hearer) {
  return hearer.comm == MPI_COMM_NULL && hearer.window == MPI_WIN_NULL && hearer.file == MPI_FILE_NULL;
}

int raise(const Hearer& hearer, int error_class, const std::string& sentence) {
  if (hearer.window != MPI_WIN_NULL) return Partita_Raise_on_window(hearer.window, error_class, sentence.c_str());
  if (hearer.file != MPI_FILE_NULL) return Partita_Raise_on_file(hearer.file, error_class, sentence.c_str());
  return Partita_Raise(hearer.comm, error_class, sentence.c_str());
}

}  // namespace

int refuse_those_in_gpu(const char* call, const Hearer& hearer, std::span<const HostBuffer> buffers) {
  if (is_nobody(hearer)) return MPI_SUCCESS;
  for (const auto& [argument, address, count, datatype] : buffers) {
    const int gpu = Partita_gpu_of(address, count, datatype);
    if (gpu < 0) continue;
    return guarded(call, [&, refused = argument](const char* called) {
      return raise(hearer, MPI_ERR_BUFFER,
                   fmt::format("{}: argument {} is memory of GPU {}, which the MPI does not take; expected is host "
                               "memory. Partita takes GPU memory in messages and collectives",
                               called, refused, gpu));
    });
  }
  return MPI_SUCCESS;
}

}  // namespace partita::dropin::internal

using namespace partita::dropin;

extern "C" {

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define LIST(...) __VA_ARGS__
#define CALL(NAME, HEARER, BUFFERS, PARAMETERS, ...)                               \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                   \
    const int refused = refuse_gpu_memory(__func__, Hearer{HEARER}, LIST BUFFERS); \
    return refused == MPI_SUCCESS ? native().NAMED(, NAME)(__VA_ARGS__) : refused; \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define COUNT int
#define SIZE MPI_Aint
#define ONE_FORM CALL
#include "dropin/host_buffer_calls.inc"
#undef NAMED
#undef COUNT
#undef SIZE
#undef ONE_FORM

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#define SIZE MPI_Count
#define ONE_FORM(...)
#include "dropin/host_buffer_calls.inc"
#undef NAMED
#undef COUNT
#undef SIZE
#undef ONE_FORM
#endif
#undef CALL
#undef LIST
#undef INTERPOSE_EXPANDED

}  // extern "C"
