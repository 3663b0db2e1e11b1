#include "gpu/gpu_buffer.cuh"

#include <mpi.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace partita::test {
namespace {

void must(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}

int gpu_count() {
  int count = 0;
  must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

}  // namespace

void choose_gpu() {
  must(cudaSetDevice(rank() % gpu_count()), "cudaSetDevice");
}

bool gpus_are_shared() {
  return ranks() > gpu_count();
}

Stream::Stream() {
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}
Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

GpuBuffer::GpuBuffer(std::int64_t size_bytes) : size_bytes_(size_bytes) {
  must(cudaMalloc(&data_, static_cast<std::size_t>(std::max<std::int64_t>(size_bytes, 1))), "cudaMalloc");
  clear();
}

GpuBuffer::~GpuBuffer() {
  cudaFree(data_);
}

void GpuBuffer::clear() const {
  const std::vector<unsigned char> bytes(static_cast<std::size_t>(size_bytes_), 0xa5);
  Stream stream;
  must(cudaMemcpyAsync(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void GpuBuffer::fill(std::uint64_t round) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size_bytes_));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(round, static_cast<std::int64_t>(i));
  Stream stream;
  must(cudaMemcpyAsync(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

testing::AssertionResult GpuBuffer::holds(std::uint64_t round, std::int64_t first, std::int64_t last) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(last - first));
  Stream stream;
  must(cudaMemcpyAsync(bytes.data(), data_ + first, bytes.size(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  for (std::int64_t i = 0; i < last - first; ++i) {
    const unsigned char expected = byte_at(round, first + i);
    const unsigned char got = bytes[static_cast<std::size_t>(i)];
    if (got == expected) continue;
    return testing::AssertionFailure() << "byte " << first + i << " of round " << round << " is " << int{got}
                                       << ", expected " << int{expected};
  }
  return testing::AssertionSuccess();
}

}  // namespace partita::test
