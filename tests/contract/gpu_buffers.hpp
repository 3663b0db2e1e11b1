// GPU memory of every kind that a program may hand to Partita.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace partita::test {

/// Fails the process where CUDA fails.
void must(cudaError_t result, const char* what);

/// This rank's GPU: ranks take turns, and share where there are fewer than ranks.
int gpu();
int gpu_count();

/// cudaMalloc, cudaMallocManaged or cudaMallocAsync.
class CudaBuffer {
 public:
  enum class From { malloc, managed, pool };
  explicit CudaBuffer(std::size_t size_bytes, From from = From::malloc);
  ~CudaBuffer();
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  std::byte* data() const { return data_; }

 private:
  From from_;
  std::byte* data_ = nullptr;
};

/// Memory mapped by hand: one handle of a granule (2 MiB on today's GPUs) for each of `handles`, one after another.
class MappedBuffer {
 public:
  explicit MappedBuffer(int handles, bool exportable = true);
  ~MappedBuffer();
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  std::size_t granule_bytes() const { return granule_bytes_; }
  std::size_t size_bytes() const { return granule_bytes_ * static_cast<std::size_t>(handles_); }

  /// Puts new memory in the place of the old.
  void renew();

 private:
  void map();
  void unmap();

  int handles_;
  CUmemAllocationProp properties_{};
  std::size_t granule_bytes_ = 0;
  CUdeviceptr address_ = 0;
};

}  // namespace partita::test
