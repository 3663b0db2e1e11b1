#include "apps/halo/gpu/kernels.hpp"

#include <partita/device.cuh>

#include <algorithm>

#include "apps/support/cuda_check.hpp"

namespace partita::gpu_halo_kernels {
namespace {

constexpr int block_threads = 256;
constexpr int exchange_threads = 512;

/// By `threads` threads, of which this is `thread`.
template <bool packs>
__device__ void copy_run(const Run& run, unsigned thread, unsigned threads) {
  for (unsigned i = thread; i < static_cast<unsigned>(run.count); i += threads) {
    std::uint64_t& cell = run.cells[i * run.step];
    if (packs) {
      run.packed[i] = cell;
    } else {
      cell = run.packed[i];
    }
  }
}

template <bool packs>
__global__ void __launch_bounds__(block_threads) copy_runs(const __grid_constant__ Runs runs) {
  copy_run<packs>(runs.runs[blockIdx.y], blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

__device__ int exchange_run(const Link& link, const Run& own, const Run& ghosts) {
  if (const int code = MPIX_Pstart(link.receive)) return code;
  copy_run<true>(own, threadIdx.x, blockDim.x);
  if (const int code = MPIX_Pstart(link.send)) return code;
  if (const int code = MPIX_Pbuf_prepare(link.send)) return code;
  if (const int code = MPIX_Pready_block(0, link.send)) return code;
  if (const int code = MPIX_Pwait(link.receive)) return code;
  copy_run<false>(ghosts, threadIdx.x, blockDim.x);
  return MPIX_Pwait(link.send);
}

__global__ void __launch_bounds__(exchange_threads, 1)
    exchange_runs(const __grid_constant__ Links links, const __grid_constant__ Runs own,
                  const __grid_constant__ Runs ghosts, int* failure) {
  const unsigned direction = blockIdx.x;
  const int code = exchange_run(links.links[direction], own.runs[direction], ghosts.runs[direction]);
  if (code != 0 && threadIdx.x == 0) atomicCAS(failure, 0, code);
}

template <bool packs>
void launch_copy(const Runs& runs, cudaStream_t stream) {
  if (runs.count == 0) return;
  constexpr int most_blocks = 32;  // a direction
  int longest = 1;
  for (int i = 0; i < runs.count; ++i) longest = std::max(longest, runs.runs[i].count);
  const int blocks = std::min(most_blocks, (longest + block_threads - 1) / block_threads);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(runs.count));
  copy_runs<packs><<<grid, block_threads, 0, stream>>>(runs);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

}  // namespace

void launch_pack(const Runs& runs, cudaStream_t stream) {
  launch_copy<true>(runs, stream);
}

void launch_unpack(const Runs& runs, cudaStream_t stream) {
  launch_copy<false>(runs, stream);
}

void launch_exchange(const Links& links, const Runs& own, const Runs& ghosts, int* failure, cudaStream_t stream) {
  if (own.count == 0) return;
  exchange_runs<<<static_cast<unsigned>(own.count), exchange_threads, 0, stream>>>(links, own, ghosts, failure);
  PARTITA_APPS_CUDA(cudaGetLastError());
}

void load() {
  cudaFuncAttributes attributes;
  for (const void* kernel :
       {reinterpret_cast<const void*>(copy_runs<true>), reinterpret_cast<const void*>(copy_runs<false>),
        reinterpret_cast<const void*>(exchange_runs)}) {
    PARTITA_APPS_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  }
}

}  // namespace partita::gpu_halo_kernels
