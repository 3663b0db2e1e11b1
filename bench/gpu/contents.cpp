#include "bench/gpu/contents.hpp"

#include <array>
#include <cstdio>

#include "bench/content_hash.hpp"
#include "bench/gpu/content_kernels.hpp"
#include "bench/gpu/memory.hpp"

namespace partita::bench::gpu {

namespace {

constexpr std::size_t word_bytes = 8;

ContentShape shape_of(const Region& region, std::uint64_t epoch) {
  if (region.size_bytes % word_bytes != 0) {
    throw Failure("{} bytes of GPU memory are no multiple of {}.", region.size_bytes, word_bytes);
  }
  return {region.size_bytes / word_bytes, region.size_bytes / static_cast<std::uint64_t>(region.partitions),
          mix(epoch)};
}

std::uint64_t* words(std::byte* data) {
  return reinterpret_cast<std::uint64_t*>(data);
}

void finish(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// The first wrong byte in word `index`.
Mismatch mismatch_in(const Region& region, std::uint64_t index, std::uint64_t epoch) {
  std::array<std::byte, word_bytes> got{};
  check(cudaMemcpy(got.data(), region.data + word_bytes * index, got.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  const std::uint64_t part_bytes = region.size_bytes / static_cast<std::uint64_t>(region.partitions);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint64_t at = word_bytes * index + i;
    const auto partition = static_cast<std::int64_t>(at / part_bytes);
    const std::byte expected = expected_byte(epoch, partition, static_cast<std::int64_t>(at % part_bytes));
    if (got[i] != expected) return {static_cast<std::int64_t>(at), static_cast<int>(partition), expected, got[i]};
  }
  throw Failure("The word at offset {} of GPU memory changed while it was compared.", word_bytes * index);
}

}  // namespace

void fill(const Region& region, std::uint64_t epoch, cudaStream_t stream) {
  launch_fill(words(region.data), shape_of(region, epoch), 0, stream);
  finish(stream);
}

void poison(const Region& region, std::uint64_t epoch, cudaStream_t stream) {
  launch_fill(words(region.data), shape_of(region, epoch), ~std::uint64_t{0}, stream);
  finish(stream);
}

void fill_addends(std::byte* a, std::byte* b, const Region& sum, std::uint64_t epoch, cudaStream_t stream) {
  launch_fill_addends(words(a), words(b), shape_of(sum, epoch), stream);
  finish(stream);
}

std::optional<Mismatch> find_mismatch(const Region& region, std::uint64_t epoch, cudaStream_t stream) {
  const DeviceBuffer first(sizeof(std::uint64_t));
  std::uint64_t index = no_mismatch;
  check(cudaMemcpyAsync(first.data(), &index, sizeof(index), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  launch_find(words(region.data), shape_of(region, epoch), words(first.data()), stream);
  finish(stream);
  check(cudaMemcpy(&index, first.data(), sizeof(index), cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (index == no_mismatch) return std::nullopt;
  return mismatch_in(region, index, epoch);
}

bool compare(const Region& region, std::uint64_t epoch, cudaStream_t stream, int rank, const char* subject) {
  const auto mismatch = find_mismatch(region, epoch, stream);
  if (!mismatch) return true;
  fmt::print(stderr,
             "partita bench: wrong data: rank {} offset {} (partition {} of {}): expected {:#04x}, got {:#04x}; {}, {} "
             "bytes of GPU memory\n",
             rank, mismatch->offset, mismatch->partition, region.partitions, static_cast<int>(mismatch->expected),
             static_cast<int>(mismatch->got), subject, region.size_bytes);
  return false;
}

}  // namespace partita::bench::gpu
