// One check for every CUDA call of the app.
#pragma once

#include <cuda_runtime_api.h>

namespace jacobi2d::gpu {

/// Throws std::runtime_error that names `call` unless `code` is success.
void check_cuda(cudaError_t code, const char* call);

}  // namespace jacobi2d::gpu

#define JACOBI2D_CUDA(call) ::jacobi2d::gpu::check_cuda((call), #call)
