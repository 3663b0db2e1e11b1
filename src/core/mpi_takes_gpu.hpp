// What the MPI of this process says of GPU memory.
#pragma once

#include <dlfcn.h>

#include <optional>

#include "core/which_mpi.hpp"

namespace partita {

/// Whether it takes memory of CUDA's in its calls; nothing where it has no way to say. MPIs have no common call for it.
inline std::optional<bool> mpi_takes_cuda_memory() {
  if constexpr (built_for == MpiFamily::open_mpi) {
    auto* const asked = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
    if (asked != nullptr) return asked() != 0;
  }
  if constexpr (built_for == MpiFamily::mpich) {
    constexpr int cuda = 0;  // MPIX_GPU_SUPPORT_CUDA
    int answer = 0;
    auto* const asked = reinterpret_cast<int (*)(int, int*)>(::dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support"));
    if (asked != nullptr && asked(cuda, &answer) == MPI_SUCCESS) return answer != 0;
  }
  return std::nullopt;
}

}  // namespace partita
