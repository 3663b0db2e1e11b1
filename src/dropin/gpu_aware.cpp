#include "dropin/gpu_aware.hpp"

#include <fmt/format.h>

#include "dropin/refuse.hpp"

namespace partita::dropin {

int refuse_gpu_memory(const char* call, const char* instead) {
  return refuse(MPI_ERR_BUFFER, fmt::format("{}: a buffer lies in GPU memory, which the MPI of this process does not "
                                            "take; expected is host memory, or {}",
                                            call, instead));
}

}  // namespace partita::dropin
