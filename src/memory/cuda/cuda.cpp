// The DeviceMemory of builds with CUDA.
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "memory/cuda/block_pool.hpp"
#include "memory/cuda/check.hpp"
#include "memory/cuda/context.hpp"
#include "memory/cuda/drain.hpp"
#include "memory/cuda/exports.hpp"
#include "memory/cuda/imports.hpp"
#include "memory/cuda/pointer.hpp"
#include "memory/cuda/registered.hpp"
#include "memory/cuda/stream.hpp"
#include "memory/gpu_presence.hpp"

namespace partita::memory {
namespace {

/// Members in the order in which they build on one another. It calls the driver alone: the runtime would make contexts
/// by itself, and the program would find our failures in cudaGetLastError.
class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(World& world, HostMemory& host_memory)
      : blocks_(contexts_), segments_(host_memory, contexts_), exports_(world, contexts_), imports_(world, contexts_) {}

  bool may_come() const override { return cuda::cuda_in_use() || sees_gpus("/"); }
  bool in_use() const override { return cuda::cuda_in_use(); }
  Place place_of(const void* address, std::size_t) override { return cuda::place_of(address); }

  std::variant<DeviceExport, NotMappable> export_to(int peer, const void* address, std::size_t size_bytes) override {
    return exports_.export_to(peer, address, size_bytes);
  }
  std::string why_not_exported(const void* address, std::size_t size_bytes) override {
    return exports_.why_not_exported(address, size_bytes);
  }
  std::variant<DevicePiece, NotMappable> name_to(int /*peer*/, const void* address, std::size_t size_bytes) override {
    return exports_.by_handle(address, size_bytes);
  }
  std::variant<std::shared_ptr<std::byte>, NotMappable> import(int peer, const DeviceExport& memory, int device,
                                                               Closing closing) override {
    return imports_.import(peer, memory, device, closing);
  }
  std::shared_ptr<std::byte> find_mapping(int peer, const DeviceExport& memory, int device) override {
    return imports_.find_mapping(peer, memory, device);
  }
  void decline(int peer, const DeviceExport& memory) override { imports_.decline(peer, memory); }
  std::uint64_t memory_bytes(int device) override;
  void check(int device) override;
  std::uint64_t trim(std::size_t allowed_bytes, Closing closing) override {
    return imports_.trim(allowed_bytes, closing);
  }

  std::byte* allocate_block(int device, std::size_t size_bytes) override {
    return blocks_.allocate(device, size_bytes);
  }
  std::byte* allocate_unzeroed_block(int device, std::size_t size_bytes) override {
    return blocks_.allocate_unzeroed(device, size_bytes);
  }
  void free_block(int device, std::byte* block, std::size_t size_bytes) override {
    blocks_.free(device, block, size_bytes);
  }
  std::byte* device_pointer(int device, std::byte* host) override { return segments_.device_pointer(device, host); }

  std::unique_ptr<Stream> make_stream(int device) override { return cuda::make_stream(contexts_, device); }
  std::unique_ptr<Stream> stream_of_program(void* native) override {
    return cuda::stream_of_program(contexts_, native);
  }
  void set_meanwhile(const std::function<void(int)>& body) override { contexts_.set_meanwhile(body); }
  std::unique_ptr<Event> make_event(int device) override { return cuda::make_event(contexts_, device); }
  void copy(void* to, const void* from, std::size_t size_bytes) override;

  void make_current(int device) override {
    thread_local bool has_one = false;
    if (has_one) return;
    CUdevice current = 0;
    if (cuda::driver().cuCtxGetDevice(&current) != CUDA_SUCCESS) PARTITA_CU(cuCtxPushCurrent, contexts_.of(device));
    has_one = true;
  }
  void with_gpu(int device, const std::function<void()>& body) override {
    const cuda::InContext in_context(contexts_.of(device));
    body();
  }
  void without_gpu(const std::function<void()>& body) override {
    std::optional<cuda::OutOfContexts> out;
    if (cuda::cuda_in_use()) out.emplace();
    body();
  }

 private:
  cuda::Contexts contexts_;
  cuda::BlockPool blocks_;
  cuda::RegisteredSegments segments_;
  cuda::Exports exports_;
  cuda::Imports imports_;
};

void CudaMemory::copy(void* to, const void* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  const void* on_gpu = to;
  Place place = cuda::place_of(to);
  if (place.kind == Kind::host) {
    on_gpu = from;
    place = cuda::place_of(from);
  }
  if (place.kind == Kind::host) {
    std::memcpy(to, from, size_bytes);
    return;
  }
  // A peer's memory lies in its GPU, but may be mapped for ours alone.
  int device = imports_.device_for(on_gpu);
  if (device < 0) device = place.device >= 0 ? place.device : contexts_.any();
  const CUstream stream = contexts_.stream(device);
  const cuda::InContext in_context(contexts_.of(device));
  PARTITA_CU(cuMemcpyAsync, cuda::device_address(to), cuda::device_address(from), size_bytes, stream);
  cuda::drain(stream, device, contexts_.meanwhile());
}

std::uint64_t CudaMemory::memory_bytes(int device) {
  CUdevice gpu = 0;
  std::size_t bytes = 0;
  PARTITA_CU(cuDeviceGet, &gpu, device);
  PARTITA_CU(cuDeviceTotalMem, &bytes, gpu);
  return bytes;
}

void CudaMemory::check(int device) {
  const CUstream stream = contexts_.stream(device);
  const cuda::InContext in_context(contexts_.of(device));
  const CUresult result = cuda::driver().cuStreamQuery(stream);
  if (result != CUDA_ERROR_NOT_READY) cuda::check_driver(cuda::driver(), result, "cuStreamQuery");
}

}  // namespace

std::unique_ptr<DeviceMemory> make_device_memory(World& world, HostMemory& host_memory) {
  return std::make_unique<CudaMemory>(world, host_memory);
}

}  // namespace partita::memory
