// The check of CUDA's calls, for sources of nvcc too: it compiles no format strings.
#pragma once

#include <cuda_runtime_api.h>

namespace partita::bench::gpu {

/// Throws Failure where `code` is an error.
void check(cudaError_t code, const char* call);

}  // namespace partita::bench::gpu
