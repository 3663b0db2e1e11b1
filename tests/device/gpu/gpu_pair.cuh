// Pairs of device requests in GPU memory, and what kernels of the tests share. Every loop that spins has a limit.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/device_pair.hpp"

namespace partita::test {

inline void check_cuda(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}
#define CHECK_CUDA(call) ::partita::test::check_cuda(call, #call)

/// GPU of a side: two if the machine has them, else one for both.
inline int sender_device() {
  return 0;
}
inline int receiver_device() {
  static const int device = [] {
    int count = 0;
    CHECK_CUDA(cudaGetDeviceCount(&count));
    int able = 0;
    if (count > 1) CHECK_CUDA(cudaDeviceCanAccessPeer(&able, 0, 1));
    if (able == 0) return 0;
    for (const int from : {0, 1}) {
      CHECK_CUDA(cudaSetDevice(from));
      const cudaError_t status = cudaDeviceEnablePeerAccess(1 - from, 0);
      if (status != cudaErrorPeerAccessAlreadyEnabled) CHECK_CUDA(status);
    }
    (void)cudaGetLastError();
    return 1;
  }();
  return device;
}

class GpuStream {
 public:
  explicit GpuStream(int device) : device_(device) {
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  ~GpuStream() { (void)cudaStreamDestroy(stream_); }

  /// For a launch: makes its GPU current.
  cudaStream_t use() {
    CHECK_CUDA(cudaSetDevice(device_));
    return stream_;
  }
  void wait() {
    CHECK_CUDA(cudaSetDevice(device_));
    CHECK_CUDA(cudaStreamSynchronize(stream_));
  }
  bool idle() {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return false;
    CHECK_CUDA(status);
    return true;
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

/// `reversed`: the sending side on the receiver's GPU.
class GpuPairMemory : public PairMemory {
 public:
  explicit GpuPairMemory(bool reversed = false)
      : sender_(reversed ? receiver_device() : sender_device()),
        receiver_(reversed ? sender_device() : receiver_device()),
        copies_(sender_) {
    CHECK_CUDA(cudaHostAlloc(&scratch_, scratch_bytes, cudaHostAllocPortable));
  }
  ~GpuPairMemory() override {
    for (void* block : device_blocks_) (void)cudaFree(block);
    for (void* block : host_blocks_) (void)cudaFreeHost(block);
    (void)cudaFreeHost(scratch_);
  }

  unsigned char* allocate(Spot spot, std::size_t size_bytes) override {
    void* block = nullptr;
    if (spot == Spot::host) {
      CHECK_CUDA(cudaHostAlloc(&block, size_bytes + 1, cudaHostAllocPortable | cudaHostAllocMapped));
      std::memset(block, 0, size_bytes + 1);
      host_blocks_.push_back(block);
    } else {
      CHECK_CUDA(cudaSetDevice(spot == Spot::sender_gpu ? sender_ : receiver_));
      CHECK_CUDA(cudaMalloc(&block, size_bytes + 1));
      CHECK_CUDA(cudaMemset(block, 0, size_bytes + 1));
      CHECK_CUDA(cudaDeviceSynchronize());
      device_blocks_.push_back(block);
    }
    return static_cast<unsigned char*>(block);
  }

  void copy(void* to, const void* from, std::size_t size_bytes) override {
    cudaPointerAttributes attributes{};
    CHECK_CUDA(cudaPointerGetAttributes(&attributes, from));
    if (attributes.type == cudaMemoryTypeUnregistered && size_bytes <= scratch_bytes) {
      std::memcpy(scratch_, from, size_bytes);
      from = scratch_;
    }
    CHECK_CUDA(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, copies_.use()));
    copies_.wait();
  }

  int sender() const { return sender_; }
  int receiver() const { return receiver_; }

 private:
  static constexpr std::size_t scratch_bytes = 4096;

  int sender_;
  int receiver_;
  GpuStream copies_;
  void* scratch_ = nullptr;
  std::vector<void*> device_blocks_;
  std::vector<void*> host_blocks_;
};

struct GpuPair : GpuPairMemory, DevicePair {
  explicit GpuPair(const PairShape& shape, bool reversed = false) : GpuPairMemory(reversed), DevicePair(*this, shape) {}
};

/// What kernels find; in host memory.
struct Findings {
  std::uint32_t wrong_codes;
  std::int32_t first_code;
  std::uint32_t wrong_bytes;
  std::uint32_t late;  ///< a loop of the test itself passed its limit
};

class SharedFindings {
 public:
  SharedFindings() {
    CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&findings_), sizeof(Findings), cudaHostAllocPortable));
    *findings_ = Findings{};
  }
  ~SharedFindings() { (void)cudaFreeHost(findings_); }
  Findings* get() const { return findings_; }
  void expect_none(const std::string& where) const {
    EXPECT_EQ(findings_->wrong_codes, 0U) << where << ": first code " << findings_->first_code;
    EXPECT_EQ(findings_->wrong_bytes, 0U) << where;
    EXPECT_EQ(findings_->late, 0U) << where;
  }

 private:
  Findings* findings_ = nullptr;
};

// ---- In kernels ----------------------------------------------------------------------------------------------------

inline constexpr std::uint64_t spin_limit_ns = 10'000'000'000;

/// The byte of `epoch` at `position`: DevicePair::expected for kernels.
__device__ inline unsigned char expected_byte(Epoch epoch, std::int64_t position) {
  std::uint64_t x = epoch * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(position) * 0xbf58476d1ce4e5b9U;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebU;
  return static_cast<unsigned char>(x >> 56);
}

/// True, and counted, if a call did not succeed.
__device__ inline bool failed(int code, Findings* findings) {
  if (code == PARTITA_DEVICE_SUCCESS) return false;
  if (atomicAdd_system(&findings->wrong_codes, 1U) == 0) findings->first_code = code;
  return true;
}

/// A barrier of a grid whose blocks all run at once. `arrived` starts as 0 and only grows. False past the limit.
__device__ inline bool grid_barrier(std::uint32_t* arrived, std::uint32_t* turn, Findings* findings) {
  const std::uint32_t wanted = ++*turn * gridDim.x;
  bool late = false;
  __syncthreads();
  if (threadIdx.x == 0) {
    ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device> word(*arrived);
    word.fetch_add(1, ::cuda::std::memory_order_acq_rel);
    const std::uint64_t since = device::now_ns();
    while (static_cast<std::int32_t>(word.load(::cuda::std::memory_order_acquire) - wanted) < 0 && !late) {
      late = device::now_ns() - since > spin_limit_ns;
    }
    if (late) atomicAdd_system(&findings->late, 1U);
  }
  return __syncthreads_or(late) == 0;
}

/// Wastes between 0 and about `most_ns`, by chance.
__device__ inline void random_delay(std::uint32_t seed, std::uint32_t most_ns) {
  std::uint32_t x = seed * 2654435761U;
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  if (most_ns != 0 && x % 4 == 0) __nanosleep(x % most_ns);
}

}  // namespace partita::test
