#include "memory/cuda/context.hpp"

#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {

Contexts::~Contexts() {
  for (const Gpu& gpu : gpus_) {
    if (gpu.context == nullptr) continue;
    {
      const InContext in_context(gpu.context);
      if (gpu.stream != nullptr) PARTITA_CU_QUIETLY(cuStreamDestroy, gpu.stream);
      unload_kernels(gpu.kernels);
    }
    PARTITA_CU_QUIETLY(cuDevicePrimaryCtxRelease, gpu.device);
  }
}

Contexts::Gpu& Contexts::gpu(int device) {
  if (gpus_.empty()) {
    int count = 0;
    PARTITA_CU(cuDeviceGetCount, &count);
    gpus_.resize(static_cast<std::size_t>(count));
  }
  if (device < 0 || static_cast<std::size_t>(device) >= gpus_.size()) {
    throw Error(ErrorClass::arg, "there is no GPU {}: this process sees {} of them", device, gpus_.size());
  }
  Gpu& gpu = gpus_[static_cast<std::size_t>(device)];
  if (gpu.context == nullptr) {
    PARTITA_CU(cuDeviceGet, &gpu.device, device);
    PARTITA_CU(cuDevicePrimaryCtxRetain, &gpu.context, gpu.device);
    const InContext in_context(gpu.context);
    gpu.kernels = load_kernels();
  }
  return gpu;
}

CUcontext Contexts::of(int device) {
  const std::lock_guard lock(mutex_);
  return gpu(device).context;
}

CUfunction Contexts::kernel(int device, Kernel kernel) {
  const std::lock_guard lock(mutex_);
  const LoadedKernels& kernels = gpu(device).kernels;
  if (kernels.result != CUDA_SUCCESS) {
    throw Error(ErrorClass::other,
                "the kernels of Partita cannot be loaded on GPU {}, which must be of sm_75 or later: {}", device,
                text_of(driver(), kernels.result));
  }
  return kernels.functions[static_cast<std::size_t>(kernel)];
}

CUstream create_stream() {
  int lowest = 0;
  int highest = 0;
  PARTITA_CU(cuCtxGetStreamPriorityRange, &lowest, &highest);
  CUstream stream = nullptr;
  PARTITA_CU(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, highest);
  return stream;
}

CUstream Contexts::stream(int device) {
  const std::lock_guard lock(mutex_);
  Gpu& found = gpu(device);
  if (found.stream == nullptr) {
    const InContext in_context(found.context);
    found.stream = create_stream();
  }
  return found.stream;
}

int Contexts::any() {
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t device = 0; device < gpus_.size(); ++device) {
      if (gpus_[device].context != nullptr) return static_cast<int>(device);
    }
  }
  CUdevice device = 0;
  return driver().cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

}  // namespace partita::memory::cuda
