// GPU memory for the buffers of tests that know nothing of CUDA. In a build without CUDA every call fails with its
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace partita::test {

/// Whether this run's buffers lie in GPU memory where a test leaves that open: PARTITEST_MEMORY is "gpu", not "host".
bool gpu_memory_is_wanted();

/// This rank's GPU: one each where there are enough, else several ranks share one.
int own_gpu();

/// A piece of its memory; freed with gpu_free. Any thread, like the calls below.
std::uint8_t* gpu_allocate(std::size_t size_bytes);
void gpu_free(void* memory);

struct GpuCopy {
  void* to;
  const void* from;
  std::size_t size_bytes;
};
/// Between host and GPU, or within either, in their order; complete on return, and not behind the work of another
/// thread.
void gpu_copies(std::span<const GpuCopy> copies);
inline void gpu_copy(void* to, const void* from, std::size_t size_bytes) {
  const GpuCopy only{to, from, size_bytes};
  gpu_copies({&only, 1});
}

}  // namespace partita::test
