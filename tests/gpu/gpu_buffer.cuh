// GPU memory with a pattern in it, for tests.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>

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

class GpuBuffer {
 public:
  explicit GpuBuffer(std::int64_t size_bytes);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  unsigned char* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }
  /// Bytes [first, last) hold the pattern of `round`; looks at once, past the default stream.
  testing::AssertionResult holds(std::uint64_t round, std::int64_t first, std::int64_t last) const;
  void fill(std::uint64_t round) const;
  void clear() const;

 private:
  std::int64_t size_bytes_;
  unsigned char* data_ = nullptr;
};

/// The first rank sends to the last one: to itself where there is only one.
class FirstToLast : public testing::Test {
 protected:
  void SetUp() override { choose_gpu(); }

  int sender() const { return 0; }
  int receiver() const { return ranks() - 1; }
  bool sends() const { return rank() == sender(); }
  bool receives() const { return rank() == receiver(); }
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

}  // namespace partita::test
