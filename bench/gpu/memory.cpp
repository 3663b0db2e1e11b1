#include "bench/gpu/memory.hpp"

namespace partita::bench::gpu {

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw Failure("{} failed: {}.", call, cudaGetErrorString(code));
}

}  // namespace partita::bench::gpu
