#include "memory/cuda/pointer.hpp"

#include <array>

#include "memory/cuda/check.hpp"
#include "memory/surely_host.hpp"

namespace partita::memory::cuda {
namespace {

/// The driver writes what an attribute takes, 1 to 8 bytes; the rest stays zero.
struct Attribute {
  CUpointer_attribute which;
  void* value;
};

/// False where CUDA has ended, or not begun.
template <std::size_t count>
bool query(const void* address, const std::array<Attribute, count>& wanted) {
  std::array<CUpointer_attribute, count> which;  // its type has no zero value
  std::array<void*, count> values{};
  for (std::size_t i = 0; i < count; ++i) {
    which[i] = wanted[i].which;
    values[i] = wanted[i].value;
  }
  const CUresult result = driver().cuPointerGetAttributes(static_cast<unsigned>(count), which.data(), values.data(),
                                                          device_address(address));
  if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED) return false;
  check_driver(driver(), result, "cuPointerGetAttributes");
  return true;
}

Place place_from(std::uint64_t type, std::uint64_t managed, int device) {
  if (managed != 0) return {Kind::managed, device};
  if (type == CU_MEMORYTYPE_DEVICE) return {Kind::device, device};
  return {};
}

}  // namespace

Place place_of(const void* address) {
  if (address == nullptr || is_surely_host(address) || !cuda_in_use()) return {};
  std::uint64_t type = 0;
  std::uint64_t managed = 0;
  int device = -1;
  const std::array<Attribute, 3> wanted{{{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type},
                                         {CU_POINTER_ATTRIBUTE_IS_MANAGED, &managed},
                                         {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &device}}};
  return query(address, wanted) ? place_from(type, managed, device) : Place{};
}

Allocation allocation_of(const void* address) {
  Allocation allocation;
  std::uint64_t type = 0;
  std::uint64_t managed = 0;
  int device = -1;
  std::uint64_t ipc_capable = 0;
  void* pool = nullptr;
  const std::array<Attribute, 9> wanted{{{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type},
                                         {CU_POINTER_ATTRIBUTE_IS_MANAGED, &managed},
                                         {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &device},
                                         {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, &ipc_capable},
                                         {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, &pool},
                                         {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, &allocation.handle_types},
                                         {CU_POINTER_ATTRIBUTE_BUFFER_ID, &allocation.buffer_id},
                                         {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &allocation.base},
                                         {CU_POINTER_ATTRIBUTE_RANGE_SIZE, &allocation.size_bytes}}};
  if (!query(address, wanted)) throw Error(ErrorClass::other, "CUDA has ended in this process");
  allocation.place = place_from(type, managed, device);
  allocation.ipc_capable = ipc_capable != 0;
  allocation.pooled = pool != nullptr;
  return allocation;
}

}  // namespace partita::memory::cuda
