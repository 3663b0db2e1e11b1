#include "memory/cuda/mapping.hpp"

#include <cstdint>
#include <cstring>

#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {
namespace {

class IpcMapping final : public Mapping {
 public:
  IpcMapping(std::byte* base, CUcontext context) : context_(context) { base_ = base; }
  ~IpcMapping() override {
    const InContext in_context(context_);
    PARTITA_CU_QUIETLY(cuIpcCloseMemHandle, reinterpret_cast<CUdeviceptr>(base_));
  }
  bool blocks() const override { return true; }

 private:
  CUcontext context_;
};

/// Addresses, and the handles that are mapped there so far.
class DescriptorMapping final : public Mapping {
 public:
  explicit DescriptorMapping(CUcontext context) : context_(context) {}
  ~DescriptorMapping() override {
    if (reserved_bytes_ == 0) return;
    const InContext in_context(context_);
    for (const Part& part : parts_) PARTITA_CU_QUIETLY(cuMemUnmap, part.address, part.size_bytes);
    PARTITA_CU_QUIETLY(cuMemAddressFree, first_, reserved_bytes_);
  }
  bool blocks() const override { return false; }

  CUresult reserve(std::size_t size_bytes) {
    const CUresult result = driver().cuMemAddressReserve(&first_, size_bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) return result;
    reserved_bytes_ = size_bytes;
    base_ = reinterpret_cast<std::byte*>(first_);
    return result;
  }

  CUresult add(int fd, std::size_t size_bytes) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = driver().cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) return result;
    parts_.reserve(parts_.size() + 1);
    result = driver().cuMemMap(first_ + mapped_bytes_, size_bytes, 0, handle, 0);
    PARTITA_CU_QUIETLY(cuMemRelease, handle);  // the mapping keeps the memory
    if (result != CUDA_SUCCESS) return result;
    parts_.push_back({first_ + mapped_bytes_, size_bytes});
    mapped_bytes_ += size_bytes;
    return result;
  }

  CUresult allow(int device) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return driver().cuMemSetAccess(first_, reserved_bytes_, &access, 1);
  }

 private:
  struct Part {
    CUdeviceptr address;
    std::size_t size_bytes;
  };
  CUcontext context_;
  CUdeviceptr first_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::size_t mapped_bytes_ = 0;
  std::vector<Part> parts_;
};

NotMappable failed(const char* call, int device, const std::string& text) {
  return {fmt::format("{} for GPU {} fails: {}", call, device, text)};
}

}  // namespace

Mapped map_by_ipc(const DevicePiece& piece, int device, CUcontext context) {
  const InContext in_context(context);
  CUipcMemHandle handle;
  std::memcpy(&handle, piece.handle.data(), sizeof handle);
  CUdeviceptr base = 0;
  const CUresult result = driver().cuIpcOpenMemHandle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (result == CUDA_ERROR_ALREADY_MAPPED) return AlreadyMapped{};
  if (result != CUDA_SUCCESS) return failed("cuIpcOpenMemHandle", device, text_of(driver(), result));
  return std::make_shared<IpcMapping>(reinterpret_cast<std::byte*>(base), context);
}

Mapped map_by_descriptors(const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors, int device,
                          CUcontext context) {
  const InContext in_context(context);
  std::size_t total_bytes = 0;
  for (const DevicePiece& piece : pieces) total_bytes += piece.allocation_bytes;
  auto mapping = std::make_shared<DescriptorMapping>(context);
  CUresult result = mapping->reserve(total_bytes);
  if (result != CUDA_SUCCESS) return failed("cuMemAddressReserve", device, text_of(driver(), result));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    result = mapping->add(descriptors[i].get(), pieces[i].allocation_bytes);
    if (result != CUDA_SUCCESS) return failed("mapping an imported descriptor", device, text_of(driver(), result));
  }
  result = mapping->allow(device);
  if (result != CUDA_SUCCESS) return failed("cuMemSetAccess", device, text_of(driver(), result));
  return mapping;
}

}  // namespace partita::memory::cuda
