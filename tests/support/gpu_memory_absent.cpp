// GPU memory in tests of a build without CUDA: there is none.
#include <stdexcept>

#include "support/gpu_memory.hpp"

namespace partita::test {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("these tests are built without CUDA, so there is no GPU memory (PARTITEST_MEMORY=gpu)");
}

}  // namespace

int own_gpu() {
  refuse();
}

std::uint8_t* gpu_allocate(std::size_t) {
  refuse();
}

void gpu_free(void*) {
  refuse();
}

void gpu_copies(std::span<const GpuCopy>) {
  refuse();
}

}  // namespace partita::test
