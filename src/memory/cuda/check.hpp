// Calls CUDA and turns a failure into an Error that names the call.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.hpp"
#include "memory/cuda/driver.hpp"

namespace partita::memory::cuda {

/// CUDA's own text for a result, with its name.
std::string text_of(cudaError_t result);
std::string text_of(const Driver& driver, CUresult result);

/// Throw Error unless `result` is success.
void check_runtime(cudaError_t result, const char* call);
void check_driver(const Driver& driver, CUresult result, const char* call);

/// A failure that Partita deals with must not come out of the program's next cudaGetLastError.
inline cudaError_t forgotten(cudaError_t result) {
  if (result != cudaSuccess) static_cast<void>(::cudaGetLastError());
  return result;
}

}  // namespace partita::memory::cuda

/// PARTITA_CUDART(cudaMalloc(&address, 64)): a call of the runtime.
#define PARTITA_CUDART(call) ::partita::memory::cuda::check_runtime(call, #call)
/// PARTITA_CU(cuMemUnmap, address, 64): a call of the driver.
#define PARTITA_CU(function, ...)                                          \
  ::partita::memory::cuda::check_driver(::partita::memory::cuda::driver(), \
                                        ::partita::memory::cuda::driver().function(__VA_ARGS__), #function)
/// The same where nothing can be done about a failure: in destructors, and at the end of the process, when CUDA may
/// have ended already.
#define PARTITA_CUDART_QUIETLY(call) static_cast<void>(::partita::memory::cuda::forgotten(call))
#define PARTITA_CU_QUIETLY(function, ...) static_cast<void>(::partita::memory::cuda::driver().function(__VA_ARGS__))
