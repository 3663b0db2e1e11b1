#include "contract/gpu_buffers.hpp"

#include <cstdio>
#include <cstdlib>

#include "support/job.hpp"

namespace partita::test {
namespace {

/// A function of the driver, which nothing links.
template <class Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
  must(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status), name);
#else
  must(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status), name);
#endif
  return reinterpret_cast<Function>(found);
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "rank %d: %s fails with driver error %d\n", rank(), what, static_cast<int>(result));
  std::abort();
}

}  // namespace

#define PARTITA_TEST_DRIVER(name, ...) must(driver_function<decltype(&::name)>(#name)(__VA_ARGS__), #name)

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "rank %d: %s fails: %s\n", rank(), what, cudaGetErrorString(result));
  std::abort();
}

int gpu_count() {
  int count = 0;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

int gpu() {
  return rank() % gpu_count();
}

CudaBuffer::CudaBuffer(std::size_t size_bytes, From from) : from_(from) {
  void* data = nullptr;
  switch (from) {
    case From::malloc:
      must(cudaMalloc(&data, size_bytes), "cudaMalloc");
      break;
    case From::managed:
      must(cudaMallocManaged(&data, size_bytes, cudaMemAttachGlobal), "cudaMallocManaged");
      break;
    case From::pool:
      must(cudaMallocAsync(&data, size_bytes, nullptr), "cudaMallocAsync");
      must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
      break;
  }
  data_ = static_cast<std::byte*>(data);
}

CudaBuffer::~CudaBuffer() {
  if (from_ == From::pool) {
    must(cudaFreeAsync(data_, nullptr), "cudaFreeAsync");
    must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  } else {
    must(cudaFree(data_), "cudaFree");
  }
}

MappedBuffer::MappedBuffer(int handles, bool exportable) : handles_(handles) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.requestedHandleTypes = exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = gpu();
  PARTITA_TEST_DRIVER(cuMemGetAllocationGranularity, &granule_bytes_, &properties_,
                      CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  PARTITA_TEST_DRIVER(cuMemAddressReserve, &address_, size_bytes(), 0, 0, 0);
  map();
}

MappedBuffer::~MappedBuffer() {
  unmap();
  PARTITA_TEST_DRIVER(cuMemAddressFree, address_, size_bytes());
}

void MappedBuffer::renew() {
  unmap();
  map();
}

void MappedBuffer::map() {
  for (int i = 0; i < handles_; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    PARTITA_TEST_DRIVER(cuMemCreate, &handle, granule_bytes_, &properties_, 0);
    PARTITA_TEST_DRIVER(cuMemMap, address_ + static_cast<std::size_t>(i) * granule_bytes_, granule_bytes_, 0, handle,
                        0);
    PARTITA_TEST_DRIVER(cuMemRelease, handle);
  }
  CUmemAccessDesc access{};
  access.location = properties_.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  PARTITA_TEST_DRIVER(cuMemSetAccess, address_, size_bytes(), &access, 1);
}

void MappedBuffer::unmap() {
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (int i = 0; i < handles_; ++i) {
    PARTITA_TEST_DRIVER(cuMemUnmap, address_ + static_cast<std::size_t>(i) * granule_bytes_, granule_bytes_);
  }
}

}  // namespace partita::test
