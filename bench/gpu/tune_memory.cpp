#include "bench/gpu/memory.hpp"
#include "bench/tune/memory.hpp"

namespace partita::bench::tune {

const Memory& gpu_memory() {
  static constexpr Memory memory{"gpu",
                                 [](std::size_t size_bytes) {
                                   void* base = nullptr;
                                   gpu::check(cudaMalloc(&base, size_bytes), "cudaMalloc");
                                   return Buffer(base, size_bytes, [](void* memory) { cudaFree(memory); });
                                 },
                                 [](void* to, const void* from, std::size_t size_bytes) {
                                   gpu::check(cudaMemcpy(to, from, size_bytes, cudaMemcpyDefault), "cudaMemcpy");
                                   gpu::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
                                 }};
  return memory;
}

}  // namespace partita::bench::tune
