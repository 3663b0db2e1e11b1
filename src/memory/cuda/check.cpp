#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {

std::string text_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || driver.cuGetErrorString(result, &text) != CUDA_SUCCESS)
    return fmt::format("error {}", static_cast<int>(result));
  return fmt::format("{} ({})", text, name);
}

void check_driver(const Driver& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const auto error_class = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorClass::no_mem : ErrorClass::other;
  throw Error(error_class, "CUDA failed in {}: {}", call, text_of(driver, result));
}

}  // namespace partita::memory::cuda
