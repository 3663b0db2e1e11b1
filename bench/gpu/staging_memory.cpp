// GPU memory as programs use it that stage their messages by hand.
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/memory.hpp"
#include "bench/tune/memory.hpp"
#include "bench/two_sided.hpp"

namespace partita::bench::gpu {

const StagingMemory& staging_memory() {
  static const Stream stream;
  static const StagingMemory memory{tune::gpu_memory().allocate,
                                    [](std::size_t size_bytes) {
                                      void* base = nullptr;
                                      check(cudaMallocHost(&base, size_bytes), "cudaMallocHost");
                                      return Buffer(base, size_bytes, [](void* memory) { cudaFreeHost(memory); });
                                    },
                                    [](void* to, const void* from, std::size_t size_bytes) {
                                      check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream.get()),
                                            "cudaMemcpyAsync");
                                      stream.synchronize();
                                    }};
  return memory;
}

}  // namespace partita::bench::gpu
