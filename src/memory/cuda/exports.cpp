#include "memory/cuda/exports.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {
namespace {

static_assert(sizeof(CUipcMemHandle) == sizeof(DevicePiece::handle));

/// The driver's handle of memory that was mapped by hand. It keeps the memory alive.
class RetainedHandle {
 public:
  explicit RetainedHandle(const std::byte* address)
      : result_(driver().cuMemRetainAllocationHandle(&handle_, const_cast<std::byte*>(address))) {}
  ~RetainedHandle() {
    if (valid()) PARTITA_CU_QUIETLY(cuMemRelease, handle_);
  }
  RetainedHandle(const RetainedHandle&) = delete;
  RetainedHandle& operator=(const RetainedHandle&) = delete;

  bool valid() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
  CUresult result_;
};

NotMappable failed(const char* call, CUresult result) {
  return {fmt::format("{} fails: {}", call, text_of(driver(), result))};
}

/// Tells physical memory from what else was or will be mapped at its address.
std::uint64_t identity_of(CUdeviceptr base, std::uint64_t name) {
  std::uint64_t block = 0;
  std::uint64_t buffer = 0;
  if (driver().cuPointerGetAttribute(&block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base) != CUDA_SUCCESS ||
      driver().cuPointerGetAttribute(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, base) != CUDA_SUCCESS) {
    return ~name;  // as good as new to whoever maps it
  }
  return block * 0x9e3779b97f4a7c15u ^ buffer;
}

/// The handle mapped at `address`, as a piece whose descriptor is still to be passed.
std::variant<std::pair<DevicePiece, UniqueFd>, NotMappable> piece_at(const std::byte* address, std::uint64_t name) {
  CUdeviceptr base = 0;
  std::size_t mapped_bytes = 0;
  CUresult result = driver().cuMemGetAddressRange(&base, &mapped_bytes, device_address(address));
  if (result != CUDA_SUCCESS) return failed("cuMemGetAddressRange", result);
  const RetainedHandle handle(address);
  if (!handle.valid()) return failed("cuMemRetainAllocationHandle", handle.result());
  const auto* first = reinterpret_cast<const std::byte*>(base);
  const RetainedHandle front(first);
  const RetainedHandle back(first + mapped_bytes - 1);
  if (!front.valid() || !back.valid() || front.get() != handle.get() || back.get() != handle.get()) {
    return NotMappable{"the driver does not tell where the memory that is mapped there begins and ends"};
  }
  int fd = -1;
  result = driver().cuMemExportToShareableHandle(&fd, handle.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return failed("cuMemExportToShareableHandle", result);

  DevicePiece piece;
  piece.way = DevicePiece::Way::file_descriptor;
  piece.segment = name;
  piece.buffer_id = identity_of(base, name);
  piece.address = device_address(address);
  piece.allocation_bytes = mapped_bytes;
  piece.offset_bytes = device_address(address) - base;
  return std::pair{piece, UniqueFd(fd)};
}

bool has_descriptors(const Allocation& allocation) {
  return (allocation.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

/// Empty where other processes can map the memory.
std::string obstacle_of(const Allocation& allocation) {
  if (allocation.place.kind == Kind::managed) return "managed memory cannot be shared between processes";
  if (allocation.pooled) {
    return "memory of a stream-ordered pool (cudaMallocAsync) cannot be shared between processes";
  }
  if (allocation.ipc_capable || has_descriptors(allocation)) return {};
  return "the memory was created (cuMemCreate) without a handle type that other processes can import";
}

/// Says how a buffer in memory of cudaMalloc exceeds its allocation; empty where it lies within.
std::string excess_of(const Allocation& allocation, const void* address, std::size_t size_bytes) {
  const std::size_t offset_bytes = device_address(address) - device_address(allocation.base);
  if (size_bytes <= allocation.size_bytes - offset_bytes) return {};
  return fmt::format("the buffer of {} bytes reaches past the end of its allocation", size_bytes);
}

}  // namespace

std::string Exports::why_not_exported(const void* address, std::size_t size_bytes) {
  const Allocation allocation = allocation_of(address);
  if (std::string obstacle = obstacle_of(allocation); !obstacle.empty()) return obstacle;
  if (allocation.ipc_capable) return excess_of(allocation, address, size_bytes);
  const InContext in_context(contexts_.of(allocation.place.device));
  CUdeviceptr base = 0;
  std::size_t mapped_bytes = 0;
  const CUresult result = driver().cuMemGetAddressRange(&base, &mapped_bytes, device_address(address));
  if (result != CUDA_SUCCESS) return failed("cuMemGetAddressRange", result).reason;
  if (size_bytes <= mapped_bytes - (device_address(address) - base)) return {};
  return fmt::format("the buffer of {} bytes spans several handles (cuMemCreate)", size_bytes);
}

Exported Exports::export_to(int peer, const void* address, std::size_t size_bytes) {
  const Allocation allocation = allocation_of(address);
  if (allocation.place.kind == Kind::host)
    throw Error(ErrorClass::buffer, "{} is not GPU memory that could be exported", address);

  DevicePiece piece;
  piece.buffer_id = allocation.buffer_id;
  piece.address = device_address(address);
  piece.size_bytes = size_bytes;
  if (peer == world_.rank()) {
    piece.way = DevicePiece::Way::same_process;
    return DeviceExport{piece};
  }
  if (std::string obstacle = obstacle_of(allocation); !obstacle.empty()) return NotMappable{std::move(obstacle)};
  if (allocation.ipc_capable) return by_ipc(allocation, piece);
  return by_descriptors(peer, allocation.place.device, static_cast<const std::byte*>(address), size_bytes);
}

std::variant<DevicePiece, NotMappable> Exports::by_handle(const void* address, std::size_t size_bytes) {
  const Allocation allocation = allocation_of(address);
  if (allocation.place.kind != Kind::device || !allocation.ipc_capable) {
    return NotMappable{"the memory is not of cudaMalloc, which one handle names"};
  }
  if (std::string obstacle = obstacle_of(allocation); !obstacle.empty()) return NotMappable{std::move(obstacle)};
  DevicePiece piece;
  piece.buffer_id = allocation.buffer_id;
  piece.address = device_address(address);
  piece.size_bytes = size_bytes;
  Exported exported = by_ipc(allocation, piece);
  if (auto* const not_mappable = std::get_if<NotMappable>(&exported)) return std::move(*not_mappable);
  return std::get<DeviceExport>(exported).front();
}

Exported Exports::by_ipc(const Allocation& allocation, DevicePiece piece) {
  piece.way = DevicePiece::Way::ipc;
  piece.allocation_bytes = allocation.size_bytes;
  piece.offset_bytes = piece.address - device_address(allocation.base);
  const auto* const address = reinterpret_cast<const void*>(piece.address);
  if (std::string excess = excess_of(allocation, address, piece.size_bytes); !excess.empty()) {
    return NotMappable{std::move(excess)};
  }
  const std::lock_guard lock(mutex_);
  Known& known = known_[allocation.base];
  if (known.buffer_id != allocation.buffer_id) {
    const InContext in_context(contexts_.of(allocation.place.device));
    const CUresult result = driver().cuIpcGetMemHandle(&known.handle, device_address(allocation.base));
    if (result != CUDA_SUCCESS) {
      known_.erase(allocation.base);
      return failed("cuIpcGetMemHandle", result);
    }
    known.buffer_id = allocation.buffer_id;
  }
  std::memcpy(piece.handle.data(), &known.handle, sizeof known.handle);
  return DeviceExport{piece};
}

Exported Exports::by_descriptors(int peer, int device, const std::byte* first, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const InContext in_context(contexts_.of(device));
  DeviceExport pieces;
  std::vector<UniqueFd> descriptors;
  std::size_t done_bytes = 0;
  do {
    auto found = piece_at(first + done_bytes, next_name_++);
    if (auto* reason = std::get_if<NotMappable>(&found)) return std::move(*reason);
    auto& [piece, fd] = std::get<0>(found);
    piece.size_bytes = std::min(piece.allocation_bytes - piece.offset_bytes, size_bytes - done_bytes);
    done_bytes += piece.size_bytes;
    pieces.push_back(piece);
    descriptors.push_back(std::move(fd));
  } while (done_bytes < size_bytes);

  for (std::size_t i = 0; i < pieces.size(); ++i) {
    world_.socket().pass(peer, DescriptorKind::device_memory, pieces[i].segment, pieces[i].allocation_bytes,
                         descriptors[i].get());
  }
  return pieces;
}

}  // namespace partita::memory::cuda
