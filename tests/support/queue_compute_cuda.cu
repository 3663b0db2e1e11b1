#include <cuda_runtime.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "support/queue_compute.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

void must_be_done(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

cudaStream_t stream_of(int which) {
  return *static_cast<cudaStream_t*>(queue_stream(which));
}

__global__ void compute_on_gpu(Computation computation) {
  const auto first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < computation.to_count; i += static_cast<int>(gridDim.x * blockDim.x)) {
    computation.to[i] = computation.value(i);
  }
}

void compute_on_host(void* computation) {
  const std::unique_ptr<Computation> own(static_cast<Computation*>(computation));
  compute(*own);
}

}  // namespace

bool queue_reaches(Memory to, Memory from) {
  return (to == Memory::gpu) == (from == Memory::gpu);
}

void compute_in_queue(int which, const Computation& computation, Memory memory) {
  if (memory == Memory::gpu) {
    compute_on_gpu<<<4, 128, 0, stream_of(which)>>>(computation);
    return must_be_done(cudaGetLastError(), "compute_on_gpu");
  }
  auto own = std::make_unique<Computation>(computation);
  must_be_done(cudaLaunchHostFunc(stream_of(which), compute_on_host, own.get()), "cudaLaunchHostFunc");
  (void)own.release();
}

void drain_queue(int which) {
  must_be_done(cudaStreamSynchronize(stream_of(which)), "cudaStreamSynchronize");
}

}  // namespace partita::test
