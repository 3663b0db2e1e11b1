// The library's own kernels, compiled for every GPU that it knows, and loaded into a context.
#pragma once

#include <array>
#include <cstddef>

#include "memory/cuda/driver.hpp"
#include "memory/kernels.hpp"

namespace partita::memory::cuda {

struct LoadedKernels {
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;  ///< why there are none, unless it is success
  std::array<CUmodule, 2> modules{};
  std::array<CUfunction, kernel_count> functions{};
};

/// Into the current context, ready to be launched, however lazily the process loads other kernels.
LoadedKernels load_kernels();
/// From the current context; quietly.
void unload_kernels(const LoadedKernels& kernels);

}  // namespace partita::memory::cuda
