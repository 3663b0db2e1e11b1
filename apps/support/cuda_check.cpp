#include "apps/support/cuda_check.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace partita::apps {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(fmt::format("{} failed: {} ({}).", call, cudaGetErrorString(code), cudaGetErrorName(code)));
}

}  // namespace partita::apps
