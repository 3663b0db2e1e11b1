// A build without CUDA: no GPU can be used, so nobody allocates.
#include <stdexcept>

#include "program/gpu.hpp"

namespace partita::program {

GpuUse choose_gpu(int) {
  return {};
}

void* allocate_on_gpu(std::size_t) {
  throw std::runtime_error("GPU memory cannot be allocated: this program was built without CUDA");
}
void free_on_gpu(void*) {}
void* allocate_in_pool(std::size_t size_bytes) {
  return allocate_on_gpu(size_bytes);
}
void free_in_pool(void*) {}

}  // namespace partita::program
