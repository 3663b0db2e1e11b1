// Memory with a pattern in it, of a GPU or of the host, for tests.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "contract/gpu_buffers.hpp"
#include "support/job.hpp"

namespace partita::test {

#define CUDA_OK(call)                                                                  \
  do {                                                                                 \
    const cudaError_t cuda_ok_ = (call);                                               \
    ASSERT_EQ(cuda_ok_, cudaSuccess) << #call << ": " << cudaGetErrorString(cuda_ok_); \
  } while (false)

/// This rank's GPU becomes current: one each where there are enough.
void choose_gpu();
/// Whether two ranks of this job share a GPU.
bool gpus_are_shared();

/// The byte at `position` in epoch `round`.
__host__ __device__ inline unsigned char byte_at(std::uint64_t round, std::int64_t position) {
  const std::uint64_t mixed =
      static_cast<std::uint64_t>(position) * 0x9e3779b97f4a7c15u + round * 0xda942042e4dd58b5u + 0x632be59bd9b4e019u;
  return static_cast<unsigned char>((mixed ^ (mixed >> 31)) >> 24);
}

/// Where a buffer lies: cudaMalloc's memory of the current GPU; memory of this rank's GPU that was mapped by hand
/// (cuMemMap), across the border between two handles; or plain memory of the host.
enum class Placement { gpu, mapped, host };
const char* name_of(Placement placement);

class AnyBuffer {
 public:
  AnyBuffer(std::int64_t size_bytes, Placement placement);
  AnyBuffer(const AnyBuffer&) = delete;
  AnyBuffer& operator=(const AnyBuffer&) = delete;

  unsigned char* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }
  bool on_gpu() const { return placement_ != Placement::host; }
  /// Bytes [first, last) hold the pattern of `round`; looks at once, past the default stream.
  testing::AssertionResult holds(std::uint64_t round, std::int64_t first, std::int64_t last) const;
  void fill(std::uint64_t round) const { fill(round, 0, size_bytes_); }
  void fill(std::uint64_t round, std::int64_t first, std::int64_t last) const;
  void clear() const;

 private:
  void store(const std::vector<unsigned char>& bytes, std::int64_t first) const;

  std::int64_t size_bytes_;
  Placement placement_;
  std::unique_ptr<CudaBuffer> allocated_;
  std::unique_ptr<MappedBuffer> mapped_;
  std::vector<unsigned char> host_;
  unsigned char* data_ = nullptr;
};

class GpuBuffer : public AnyBuffer {
 public:
  explicit GpuBuffer(std::int64_t size_bytes, Placement placement = Placement::gpu)
      : AnyBuffer(size_bytes, placement) {}
};

/// A value that kernels and the host both see.
template <class T>
class Managed {
 public:
  Managed() {
    must(cudaMallocManaged(&value_, sizeof(T), cudaMemAttachGlobal), "cudaMallocManaged");
    *value_ = T{};
  }
  ~Managed() { cudaFree(value_); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;

  T* get() const { return value_; }
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_ = nullptr;
};

/// A stream of this scope that does not wait for the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor): it stands for the handle

 private:
  cudaStream_t stream_ = nullptr;
};

/// The first rank sends to the last one: to itself where there is only one.
class FirstToLast : public testing::Test {
 protected:
  FirstToLast() { choose_gpu(); }  // before members of derived fixtures take memory and streams

  int sender() const { return 0; }
  int receiver() const { return ranks() - 1; }
  bool sends() const { return rank() == sender(); }
  bool receives() const { return rank() == receiver(); }
};

/// Each rank sends to the next one.
class Ring : public testing::Test {
 protected:
  Ring() { choose_gpu(); }

  int next() const { return (rank() + 1) % ranks(); }
  int previous() const { return (rank() + ranks() - 1) % ranks(); }
};

}  // namespace partita::test
