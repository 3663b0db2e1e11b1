#include "memory/cuda/kernel_image.hpp"

#include "memory/cuda/check.hpp"

// The image that nvcc has made of kernels.cu. The library carries it as data: nothing of it is registered with CUDA
// when the library is loaded, so that a machine without a driver does as well.
asm(R"(
  .pushsection .rodata
  .balign 64
  .hidden partita_kernel_image
  .globl partita_kernel_image
partita_kernel_image:
  .incbin ")" PARTITA_KERNEL_IMAGE R"("
  .popsection
)");
extern "C" const unsigned char partita_kernel_image[];

namespace partita::memory::cuda {
namespace {

CUresult load(LoadedKernels& kernels) {
  CUresult result = driver().cuModuleLoadData(&kernels.module, partita_kernel_image);
  for (std::size_t i = 0; i < kernels.functions.size() && result == CUDA_SUCCESS; ++i) {
    result = driver().cuModuleGetFunction(&kernels.functions[i], kernels.module, kernel_names[i]);
    // Where modules are loaded lazily, what a kernel needs is only known once its code is on the GPU.
    int registers = 0;
    if (result == CUDA_SUCCESS) {
      result = driver().cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, kernels.functions[i]);
    }
  }
  return result;
}

}  // namespace

LoadedKernels load_kernels() {
  LoadedKernels kernels;
  kernels.result = load(kernels);
  return kernels;
}

void unload_kernels(const LoadedKernels& kernels) {
  if (kernels.module != nullptr) PARTITA_CU_QUIETLY(cuModuleUnload, kernels.module);
}

}  // namespace partita::memory::cuda
