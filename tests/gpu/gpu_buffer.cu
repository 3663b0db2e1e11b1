#include "gpu/gpu_buffer.cuh"

#include <mpi.h>

#include <algorithm>
#include <cstring>

namespace partita::test {
namespace {

constexpr std::int64_t smallest_granule_bytes = 2 * 1024 * 1024;

/// `size_bytes` of whole handles and one more, so that a buffer fits across a border between two of them.
int handles_for(std::int64_t size_bytes) {
  return static_cast<int>(size_bytes / smallest_granule_bytes) + 2;
}

/// As far in front of the first border as half of it reaches, where a GPU copies it in its widest pieces.
std::int64_t offset_across_border(const MappedBuffer& memory, std::int64_t size_bytes) {
  const auto granule = static_cast<std::int64_t>(memory.granule_bytes());
  const std::int64_t before = std::min(granule, (size_bytes / 2 + 127) / 128 * 128);
  return granule - before;
}

}  // namespace

void choose_gpu() {
  must(cudaSetDevice(gpu()), "cudaSetDevice");
}

bool gpus_are_shared() {
  return ranks() > gpu_count();
}

const char* name_of(Placement placement) {
  static constexpr const char* names[] = {"GPU", "mapped GPU", "host"};
  return names[static_cast<int>(placement)];
}

Stream::Stream() {
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}
Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

AnyBuffer::AnyBuffer(std::int64_t size_bytes, Placement placement) : size_bytes_(size_bytes), placement_(placement) {
  const auto some_bytes = static_cast<std::size_t>(std::max<std::int64_t>(size_bytes, 1));
  switch (placement) {
    case Placement::gpu:
      allocated_ = std::make_unique<CudaBuffer>(some_bytes);
      data_ = reinterpret_cast<unsigned char*>(allocated_->data());
      break;
    case Placement::mapped:
      mapped_ = std::make_unique<MappedBuffer>(handles_for(size_bytes));
      data_ = reinterpret_cast<unsigned char*>(mapped_->data()) + offset_across_border(*mapped_, size_bytes);
      break;
    case Placement::host:
      host_.resize(some_bytes);
      data_ = host_.data();
      break;
  }
  clear();
}

void AnyBuffer::store(const std::vector<unsigned char>& bytes, std::int64_t first) const {
  if (!on_gpu()) {
    std::copy(bytes.begin(), bytes.end(), data_ + first);
    return;
  }
  Stream stream;
  must(cudaMemcpyAsync(data_ + first, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void AnyBuffer::clear() const {
  store(std::vector<unsigned char>(static_cast<std::size_t>(size_bytes_), 0xa5), 0);
}

void AnyBuffer::fill(std::uint64_t round, std::int64_t first, std::int64_t last) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(last - first));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(round, first + static_cast<std::int64_t>(i));
  store(bytes, first);
}

testing::AssertionResult AnyBuffer::holds(std::uint64_t round, std::int64_t first, std::int64_t last) const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(last - first));
  if (on_gpu()) {
    Stream stream;
    must(cudaMemcpyAsync(bytes.data(), data_ + first, bytes.size(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  } else {
    std::copy(data_ + first, data_ + last, bytes.begin());
  }
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
