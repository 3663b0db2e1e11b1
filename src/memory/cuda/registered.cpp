#include "memory/cuda/registered.hpp"

#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {
namespace {

void unregister(std::byte* base, CUcontext context) {
  const InContext in_context(context);
  PARTITA_CU_QUIETLY(cuMemHostUnregister, base);
}

}  // namespace

RegisteredSegments::RegisteredSegments(HostMemory& host_memory, Contexts& contexts)
    : host_memory_(host_memory), contexts_(contexts) {
  host_memory_.before_unmapping([this](std::byte* base) { forget(base); });
}

RegisteredSegments::~RegisteredSegments() {
  host_memory_.before_unmapping({});
  for (const auto& [base, segment] : segments_) {
    if (segment.ours) unregister(base, segment.context);
  }
}

std::byte* RegisteredSegments::device_pointer(int device, std::byte* host) {
  const auto range = host_memory_.register_segment_of(host);
  if (!range) throw Error(ErrorClass::internal, "{} is not exported host memory", static_cast<const void*>(host));
  const CUcontext context = contexts_.of(device);
  const InContext in_context(context);
  const std::lock_guard lock(mutex_);
  Segment& segment = segment_at(range->base, range->size_bytes, context);
  std::byte*& address = segment.address[device];
  if (address == nullptr) {
    CUdeviceptr found = 0;
    PARTITA_CU(cuMemHostGetDevicePointer, &found, range->base, 0);
    address = reinterpret_cast<std::byte*>(found);
  }
  return address + (host - range->base);
}

RegisteredSegments::Segment& RegisteredSegments::segment_at(std::byte* base, std::size_t size_bytes,
                                                            CUcontext context) {
  const auto found = segments_.find(base);
  if (found != segments_.end()) return found->second;
  const CUresult result =
      driver().cuMemHostRegister(base, size_bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  const bool ours = result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (ours) check_driver(driver(), result, "cuMemHostRegister");
  return segments_.emplace(base, Segment{size_bytes, context, ours, {}}).first->second;
}

void RegisteredSegments::forget(std::byte* base) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(base);
  if (found == segments_.end()) return;
  if (found->second.ours) unregister(base, found->second.context);
  segments_.erase(found);
}

}  // namespace partita::memory::cuda
