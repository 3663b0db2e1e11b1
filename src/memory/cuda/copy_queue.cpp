#include "memory/cuda/copy_queue.hpp"

#include "memory/cuda/check.hpp"
#include "memory/cuda/pointer.hpp"

namespace partita::memory::cuda {
namespace {

class StreamQueue final : public CopyQueue {
 public:
  explicit StreamQueue(CUcontext context) : context_(context) {
    const InContext in_context(context_);
    int lowest = 0;
    int highest = 0;
    PARTITA_CU(cuCtxGetStreamPriorityRange, &lowest, &highest);
    PARTITA_CU(cuStreamCreateWithPriority, &stream_, CU_STREAM_NON_BLOCKING, highest);
  }
  ~StreamQueue() override {
    const InContext in_context(context_);
    PARTITA_CU_QUIETLY(cuStreamDestroy, stream_);
  }

  void copy(void* to, const void* from, std::size_t size_bytes) override {
    if (size_bytes == 0) return;
    const InContext in_context(context_);
    PARTITA_CU(cuMemcpyAsync, device_address(to), device_address(from), size_bytes, stream_);
  }

  /// The driver's fence before the write orders it behind the copies, at system scope; a reader acquires.
  void write(Epoch* word, Epoch value) override {
    const InContext in_context(context_);
    PARTITA_CU(cuStreamWriteValue32, stream_, device_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  }

  bool idle() override {
    const InContext in_context(context_);
    const CUresult result = driver().cuStreamQuery(stream_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check_driver(driver(), result, "cuStreamQuery");
    return true;
  }

  void drain() override {
    const InContext in_context(context_);
    PARTITA_CU(cuStreamSynchronize, stream_);
  }

 private:
  CUcontext context_;
  CUstream stream_ = nullptr;
};

}  // namespace

std::unique_ptr<CopyQueue> make_copy_queue(Contexts& contexts, int device) {
  return std::make_unique<StreamQueue>(contexts.of(device));
}

}  // namespace partita::memory::cuda
