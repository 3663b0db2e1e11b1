#include "memory/cuda/copy_queue.hpp"

#include <algorithm>
#include <array>

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

  /// The driver's fence before each write orders it behind what came before, at system scope; a reader acquires.
  void write(std::span<const WordWrite> writes) override {
    const InContext in_context(context_);
    std::array<CUstreamBatchMemOpParams, 64> operations;  // the driver takes up to 256 in one call
    while (!writes.empty()) {
      const auto now = writes.first(std::min(writes.size(), operations.size()));
      std::transform(now.begin(), now.end(), operations.begin(), write_operation);
      PARTITA_CU(cuStreamBatchMemOp, stream_, static_cast<unsigned int>(now.size()), operations.data(), 0);
      writes = writes.subspan(now.size());
    }
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
  static CUstreamBatchMemOpParams write_operation(const WordWrite& write) {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operation.writeValue.address = device_address(write.word);
    operation.writeValue.value = write.value;
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return operation;
  }

  CUcontext context_;
  CUstream stream_ = nullptr;
};

}  // namespace

std::unique_ptr<CopyQueue> make_copy_queue(Contexts& contexts, int device) {
  return std::make_unique<StreamQueue>(contexts.of(device));
}

}  // namespace partita::memory::cuda
