#include "apps/jacobi2d/gpu/cuda_check.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace jacobi2d::gpu {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(fmt::format("{} failed: {} ({}).", call, cudaGetErrorString(code), cudaGetErrorName(code)));
}

}  // namespace jacobi2d::gpu
