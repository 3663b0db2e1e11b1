#include "memory/cuda/check.hpp"

#include <string_view>

namespace partita::memory::cuda {
namespace {

/// The name of the function in the text of a call.
std::string_view function_of(std::string_view call) {
  return call.substr(0, call.find('('));
}

}  // namespace

std::string text_of(cudaError_t result) {
  return fmt::format("{} ({})", ::cudaGetErrorString(result), ::cudaGetErrorName(result));
}

std::string text_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || driver.cuGetErrorString(result, &text) != CUDA_SUCCESS)
    return fmt::format("error {}", static_cast<int>(result));
  return fmt::format("{} ({})", text, name);
}

void check_runtime(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  static_cast<void>(::cudaGetLastError());
  const auto error_class = result == cudaErrorMemoryAllocation ? ErrorClass::no_mem : ErrorClass::other;
  throw Error(error_class, "CUDA failed in {}: {}", function_of(call), text_of(result));
}

void check_driver(const Driver& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const auto error_class = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorClass::no_mem : ErrorClass::other;
  throw Error(error_class, "CUDA failed in {}: {}", function_of(call), text_of(driver, result));
}

}  // namespace partita::memory::cuda
