// CUDA's handles, freed with their owner, and the check of its calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>

#include "bench/failure.hpp"
#include "bench/gpu/cuda_check.hpp"

namespace partita::bench::gpu {

using bench::check;

/// Memory of this rank's GPU (cudaMalloc).
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
    check(cudaMalloc(&base_, size_bytes), "cudaMalloc");
  }
  ~DeviceBuffer() { cudaFree(base_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(base_); }
  std::size_t size() const { return size_bytes_; }

 private:
  void* base_ = nullptr;
  std::size_t size_bytes_;
};

/// Page-locked host memory.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::size_t size_bytes) { check(cudaMallocHost(&base_, size_bytes), "cudaMallocHost"); }
  ~PinnedBuffer() { cudaFreeHost(base_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(base_); }

 private:
  void* base_ = nullptr;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A T that kernels write and the host reads after a synchronisation.
template <class T>
class Mailbox {
 public:
  Mailbox() : memory_(sizeof(T)) { clear(); }
  void clear() { get() = T{}; }
  T& get() const { return *reinterpret_cast<T*>(memory_.data()); }
  T* on_gpu() const { return &get(); }  // unified addressing: page-locked memory has one address

 private:
  PinnedBuffer memory_;
};

}  // namespace partita::bench::gpu
