// The contexts in which Partita calls CUDA: those that the runtime and all other libraries share.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "memory/cuda/driver.hpp"
#include "memory/cuda/kernel_image.hpp"

namespace partita::memory::cuda {

/// Any thread may call.
class Contexts {
 public:
  Contexts() = default;
  ~Contexts();
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  /// The primary context of GPU `device`. At first it is made, and the library's kernels are loaded there: later that
  /// could wait for a kernel that runs. Throws Error.
  CUcontext of(int device);
  /// One of the library's kernels on GPU `device`. Throws Error where this library has no image for such a GPU.
  CUfunction kernel(int device, Kernel kernel);
  /// A stream of ours there, which neither waits for the program's streams nor lets them wait.
  CUstream stream(int device);
  /// What a thread calls again and again while it waits for a GPU, or nothing: see DeviceMemory::set_meanwhile().
  const std::function<void(int)>& meanwhile() const { return meanwhile_; }
  void set_meanwhile(const std::function<void(int)>& body) { meanwhile_ = body; }
  /// A GPU whose context is there, else that of the calling thread, else the first.
  int any();

 private:
  struct Gpu {
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUstream stream = nullptr;
    LoadedKernels kernels;
  };
  Gpu& gpu(int device);

  std::mutex mutex_;
  std::vector<Gpu> gpus_;
  std::function<void(int)> meanwhile_;
};

/// A stream in the current context, apart from the program's: it waits for none of CUDA's default streams, and is of
/// the highest priority, which has work queues of its own where the process has enough. Throws Error.
CUstream create_stream();

/// Makes a context current in this thread, and on leaving the one that was. Unlike cudaSetDevice it leaves no trace in
/// a thread that has not used CUDA yet. Meanwhile a stream capture of the program's is not disturbed by what is called.
class InContext {
 public:
  explicit InContext(CUcontext context) noexcept : pushed_(driver().cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    exchange_capture_mode();
  }
  ~InContext() {
    exchange_capture_mode();
    CUcontext popped = nullptr;
    if (pushed_) static_cast<void>(driver().cuCtxPopCurrent(&popped));
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  void exchange_capture_mode() noexcept {
    static_cast<void>(driver().cuThreadExchangeStreamCaptureMode(&capture_mode_));
  }

  bool pushed_;
  CUstreamCaptureMode capture_mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// This thread has no context meanwhile, as one that has not used CUDA.
class OutOfContexts {
 public:
  OutOfContexts() {
    CUcontext popped = nullptr;
    while (driver().cuCtxPopCurrent(&popped) == CUDA_SUCCESS && popped != nullptr) popped_.push_back(popped);
  }
  ~OutOfContexts() {
    for (auto context = popped_.rbegin(); context != popped_.rend(); ++context) {
      static_cast<void>(driver().cuCtxPushCurrent(*context));
    }
  }
  OutOfContexts(const OutOfContexts&) = delete;
  OutOfContexts& operator=(const OutOfContexts&) = delete;

 private:
  std::vector<CUcontext> popped_;  ///< the current one first
};

}  // namespace partita::memory::cuda
