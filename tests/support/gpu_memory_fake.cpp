// GPU memory for tests that also run on CUDA, on the fake GPU.
#include <cstring>

#include "support/fake_gpu.hpp"
#include "support/gpu_memory.hpp"

namespace partita::test {

int own_gpu() {
  return mapped;
}

std::uint8_t* gpu_allocate(std::size_t size_bytes) {
  return reinterpret_cast<std::uint8_t*>(FakeGpu::instance().allocate(mapped, size_bytes));
}

void gpu_free(void* memory) {
  if (memory != nullptr) FakeGpu::instance().free(static_cast<std::byte*>(memory));
}

void gpu_copies(std::span<const GpuCopy> copies) {
  for (const auto& [to, from, size_bytes] : copies) {
    if (size_bytes > 0) std::memcpy(to, from, size_bytes);  // the memory of no bytes is null
  }
}

}  // namespace partita::test
