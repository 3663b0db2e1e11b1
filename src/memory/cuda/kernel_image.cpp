#include "memory/cuda/kernel_image.hpp"

#include "memory/cuda/check.hpp"

// The images that nvcc has made of kernels.cu and collective_kernels.cu. The library carries them as data: nothing of
// them is registered with CUDA when the library is loaded, so that a machine without a driver does as well.
asm(R"(
  .pushsection .rodata
  .balign 64
  .hidden partita_kernel_image
  .globl partita_kernel_image
partita_kernel_image:
  .incbin ")" PARTITA_KERNEL_IMAGE R"("
  .balign 64
  .hidden partita_collective_kernel_image
  .globl partita_collective_kernel_image
partita_collective_kernel_image:
  .incbin ")" PARTITA_COLLECTIVE_KERNEL_IMAGE R"("
  .popsection
)");
extern "C" const unsigned char partita_kernel_image[];
extern "C" const unsigned char partita_collective_kernel_image[];

namespace partita::memory::cuda {
namespace {

constexpr bool is_in_collective_image(Kernel kernel) {
  return kernel == Kernel::do_collective || kernel == Kernel::reduce_pushed;
}

CUresult load(LoadedKernels& kernels) {
  auto& [common, collective] = kernels.modules;
  CUresult result = driver().cuModuleLoadData(&common, partita_kernel_image);
  if (result == CUDA_SUCCESS) result = driver().cuModuleLoadData(&collective, partita_collective_kernel_image);
  for (std::size_t i = 0; i < kernels.functions.size() && result == CUDA_SUCCESS; ++i) {
    CUmodule module = is_in_collective_image(static_cast<Kernel>(i)) ? collective : common;
    result = driver().cuModuleGetFunction(&kernels.functions[i], module, kernel_names[i]);
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
  for (CUmodule module : kernels.modules) {
    if (module != nullptr) PARTITA_CU_QUIETLY(cuModuleUnload, module);
  }
}

}  // namespace partita::memory::cuda
