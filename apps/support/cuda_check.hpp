// One check for every CUDA call of the apps.
#pragma once

#include <cuda_runtime_api.h>

namespace partita::apps {

/// Throws std::runtime_error that names `call` unless `code` is success.
void check_cuda(cudaError_t code, const char* call);

}  // namespace partita::apps

#define PARTITA_APPS_CUDA(call) ::partita::apps::check_cuda((call), #call)
