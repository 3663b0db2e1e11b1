#include "memory/cuda/stream.hpp"

#include <algorithm>
#include <array>

#include "memory/cuda/check.hpp"
#include "memory/cuda/drain.hpp"
#include "memory/cuda/pointer.hpp"

namespace partita::memory::cuda {
namespace {

/// Where a kernel waits for want of stream memory operations, which have no limit.
constexpr std::uint64_t longest_wait_ns = 3'600'000'000'000;

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CUcontext context) : context_(context) {
    const InContext in_context(context_);
    PARTITA_CU(cuEventCreate, &event_, CU_EVENT_DISABLE_TIMING);
  }
  ~CudaEvent() override {
    const InContext in_context(context_);
    PARTITA_CU_QUIETLY(cuEventDestroy, event_);
  }
  CUevent native() const { return event_; }

  bool passed() override {
    const InContext in_context(context_);
    const CUresult result = driver().cuEventQuery(event_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check_driver(driver(), result, "cuEventQuery");
    return true;
  }

 private:
  CUcontext context_;
  CUevent event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  enum class Owner { partita, program };
  CudaStream(Contexts& contexts, int device, CUstream native, Owner owner, bool memory_operations)
      : contexts_(contexts),
        device_(device),
        context_(contexts.of(device)),
        stream_(native),
        owner_(owner),
        has_memory_operations_(memory_operations) {
    if (owner == Owner::partita) end_ = std::make_unique<CudaEvent>(context_);  // not later, beside kernels that spin
  }
  ~CudaStream() override {
    if (owner_ == Owner::program) return;
    const InContext in_context(context_);
    PARTITA_CU_QUIETLY(cuStreamDestroy, stream_);
  }

  int device() const override { return device_; }

  bool capturing() override {
    const InContext in_context(context_);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = driver().cuStreamIsCapturing(stream_, &status);
    // The legacy default stream, which must not be used while another blocking one is being captured.
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
    check_driver(driver(), result, "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }

  void copy(void* to, const void* from, std::size_t size_bytes) override {
    if (size_bytes == 0) return;
    const InContext in_context(context_);
    PARTITA_CU(cuMemcpyAsync, device_address(to), device_address(from), size_bytes, stream_);
  }

  void write(std::span<const WordWrite> writes) override {
    std::array<Operation, StoreWords::most> operations;  // the driver takes up to 256 in one call
    while (!writes.empty()) {
      const auto now = writes.first(std::min(writes.size(), operations.size()));
      std::ranges::transform(now, operations.begin(), write_operation);
      if (!memory_operations(std::span(operations).first(now.size()))) store(now);
      writes = writes.subspan(now.size());
    }
  }

  void write(std::uint64_t* word, std::uint64_t value) override {
    const WordWrite write_one{word, value};
    write(std::span(&write_one, 1));
  }

  void wait(const std::uint32_t* word, std::uint32_t value, Until until) override {
    Operation operation = wait_operation(word, until);
    operation.waitValue.value = value;
    if (!memory_operations(std::span(&operation, 1))) await(word, value, sizeof value, until);
  }
  void wait(const std::uint64_t* word, std::uint64_t value, Until until) override {
    Operation operation = wait_operation(word, until);
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operation.waitValue.value64 = value;
    if (!memory_operations(std::span(&operation, 1))) await(word, value, sizeof value, until);
  }

  void record(Event& event) override {
    const InContext in_context(context_);
    PARTITA_CU(cuEventRecord, static_cast<CudaEvent&>(event).native(), stream_);
  }
  void await(const Event& event) override {
    const InContext in_context(context_);
    PARTITA_CU(cuStreamWaitEvent, stream_, static_cast<const CudaEvent&>(event).native(), CU_EVENT_WAIT_DEFAULT);
  }

  void follow(CopyQueue& other) override {
    auto& followed = static_cast<CudaStream&>(other);
    followed.refuse_while_capturing("followed");
    if (followed.end_ == nullptr) followed.end_ = std::make_unique<CudaEvent>(followed.context_);
    followed.record(*followed.end_);
    await(*followed.end_);
  }

  bool idle() override {
    refuse_while_capturing("asked whether it is idle");
    const InContext in_context(context_);
    const CUresult result = driver().cuStreamQuery(stream_);
    if (result == CUDA_ERROR_NOT_READY) return false;
    check_driver(driver(), result, "cuStreamQuery");
    return true;
  }

  void drain() override {
    refuse_while_capturing("drained");
    const InContext in_context(context_);
    cuda::drain(stream_, device_, contexts_.meanwhile());
  }

 private:
  using Operation = CUstreamBatchMemOpParams;

  /// The driver would end the capture.
  void refuse_while_capturing(const char* action) {
    if (owner_ == Owner::partita || !capturing()) return;
    throw Error(ErrorClass::other, "a stream that is being captured into a graph cannot be {}", action);
  }

  /// The driver's fence before each write orders it behind what came before, at system scope; a reader acquires.
  static Operation write_operation(const WordWrite& write) {
    Operation operation{};
    operation.writeValue.address = device_address(write.word);
    operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    if (write.bytes == sizeof(std::uint64_t)) {
      operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
      operation.writeValue.value64 = write.value;
    } else {
      operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      operation.writeValue.value = static_cast<std::uint32_t>(write.value);
    }
    return operation;
  }
  static Operation wait_operation(const void* word, Until until) {
    Operation operation{};
    operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    operation.waitValue.address = device_address(word);
    operation.waitValue.flags = until == Until::equal ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
    return operation;
  }

  /// False where this driver or GPU has none, and nothing was asked for.
  bool memory_operations(std::span<Operation> operations) {
    if (!has_memory_operations_) return false;
    const InContext in_context(context_);
    const CUresult result =
        driver().cuStreamBatchMemOp(stream_, static_cast<unsigned int>(operations.size()), operations.data(), 0);
    has_memory_operations_ = result != CUDA_ERROR_NOT_SUPPORTED;
    if (has_memory_operations_) check_driver(driver(), result, "cuStreamBatchMemOp");
    return has_memory_operations_;
  }
  void store(std::span<const WordWrite> writes) {
    StoreWords stores;
    for (const auto& [word, value, bytes] : writes) stores.add({word, nullptr, value, bytes});
    launch_here(stores);
  }
  void await(const void* word, std::uint64_t value, std::uint32_t bytes, Until until) {
    launch_here(AwaitWord{word, nullptr, value, bytes, until, longest_wait_ns, nullptr});
  }
  template <class Arguments>
  void launch_here(const Arguments& arguments) {
    launch(Arguments::kernel, {}, std::as_bytes(std::span(&arguments, 1)));
  }

  void launch(Kernel kernel, Grid grid, std::span<const std::byte> arguments) override {
    const CUfunction function = contexts_.kernel(device_, kernel);
    const InContext in_context(context_);
    void* parameter = const_cast<std::byte*>(arguments.data());
    if (grid.grids_at_once > 0 && grid.blocks > 1) {
      const unsigned room = most_blocks_at_once(function, grid.threads) / grid.grids_at_once;
      const unsigned blocks = std::min(grid.blocks, std::max(room, 1U));
      PARTITA_CU(cuLaunchCooperativeKernel, function, blocks, 1, 1, grid.threads, 1, 1, 0, stream_, &parameter);
      return;
    }
    PARTITA_CU(cuLaunchKernel, function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream_, &parameter, nullptr);
  }

  /// How many blocks of a kernel have room on the GPU together.
  unsigned most_blocks_at_once(CUfunction function, unsigned threads) const {
    int blocks_each = 0;
    int multiprocessors = 0;
    PARTITA_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks_each, function, static_cast<int>(threads), 0);
    PARTITA_CU(cuDeviceGetAttribute, &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_);
    return static_cast<unsigned>(std::max(blocks_each * multiprocessors, 1));
  }

  Contexts& contexts_;
  int device_;
  CUcontext context_;
  CUstream stream_;
  Owner owner_;
  bool has_memory_operations_;      ///< as far as is known
  std::unique_ptr<CudaEvent> end_;  ///< behind which others follow; of the program's from the first that does on
};

/// The GPU whose primary context `context` is.
int device_of(Contexts& contexts, CUcontext context) {
  CUdevice handle = 0;
  {
    const InContext in_context(context);
    PARTITA_CU(cuCtxGetDevice, &handle);
  }
  const int device = static_cast<int>(handle);  // the driver's handles are the ordinals
  if (contexts.of(device) != context) {
    throw Error(
        ErrorClass::arg,
        "the stream belongs to a CUDA context of the program's own making on GPU {}; expected is a stream of the "
        "primary context, which CUDA's runtime uses",
        device);
  }
  return device;
}

}  // namespace

std::unique_ptr<Stream> make_stream(Contexts& contexts, int device, bool memory_operations) {
  const InContext in_context(contexts.of(device));
  return std::make_unique<CudaStream>(contexts, device, create_stream(), CudaStream::Owner::partita, memory_operations);
}

std::unique_ptr<Stream> stream_of_program(Contexts& contexts, void* native) {
  auto* const stream = static_cast<CUstream>(native);
  CUcontext context = nullptr;
  const CUresult result = driver().cuStreamGetCtx(stream, &context);
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    throw Error(ErrorClass::arg, "the default stream is given by a thread that has no GPU; call cudaSetDevice first");
  }
  check_driver(driver(), result, "cuStreamGetCtx");
  return std::make_unique<CudaStream>(contexts, device_of(contexts, context), stream, CudaStream::Owner::program, true);
}

std::unique_ptr<Event> make_event(Contexts& contexts, int device) {
  return std::make_unique<CudaEvent>(contexts.of(device));
}

}  // namespace partita::memory::cuda
