#include "bench/gpu/nvshmem_peer.h"

#include <cooperative_groups.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "bench/gpu/gpu_clock.cuh"

#define PARTITA_PEER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using partita::bench::gpu::clock_steps_to_ns;
using partita::bench::gpu::gpu_now_ns;

constexpr int most_threads = 1024;
constexpr int warp_threads = 32;

__device__ void put_and_signal(void* received, const void* sent, size_t size_bytes, std::uint64_t* signal,
                               std::uint64_t value, int peer) {
  if (blockDim.x == 1) {
    nvshmem_putmem_signal(received, sent, size_bytes, signal, value, NVSHMEM_SIGNAL_SET, peer);
  } else {
    nvshmemx_putmem_signal_block(received, sent, size_bytes, signal, value, NVSHMEM_SIGNAL_SET, peer);
  }
}

/// One thread: waits until `*signal` is at least `value`; false where that takes longer than `limit_ns`. It looks as
/// nvshmem_signal_wait_until does, which knows no limit.
__device__ bool signal_comes(std::uint64_t* signal, std::uint64_t value, std::uint64_t limit_ns) {
  constexpr unsigned polls_per_look = 1024;
  std::uint64_t begin_ns = 0;
  for (unsigned polls = 1; nvshmem_signal_fetch(signal) < value; ++polls) {
    if (polls % polls_per_look != 0) continue;
    const std::uint64_t at_ns = gpu_now_ns();
    if (begin_ns == 0) begin_ns = at_ns;
    if (at_ns - begin_ns > limit_ns) return false;
  }
  return true;
}

/// All threads of the block, with the same result.
__device__ bool signal_comes_to_block(std::uint64_t* signal, std::uint64_t value, std::uint64_t limit_ns) {
  const bool late = threadIdx.x == 0 && !signal_comes(signal, value, limit_ns);
  return __syncthreads_or(late ? 1 : 0) == 0;
}

__global__ void __launch_bounds__(most_threads)
    ping_pong(void* received, const void* sent, size_t size_bytes, std::uint64_t* signal, std::uint64_t epoch,
              int rounds, int peer, bool first, std::uint64_t limit_ns, partita_nvshmem_report* report) {
  std::uint64_t begin_ns = 0;
  bool in_time = true;
  for (int i = 0; i <= rounds && in_time; ++i) {
    if (i == 1) begin_ns = gpu_now_ns();
    const std::uint64_t value = epoch + i + 1;
    if (!first) in_time = signal_comes_to_block(signal, value, limit_ns);
    if (in_time) put_and_signal(received, sent, size_bytes, signal, value, peer);
    if (first) in_time = signal_comes_to_block(signal, value, limit_ns);
  }
  if (threadIdx.x == 0) *report = {gpu_now_ns() - begin_ns, in_time ? 0 : 1};
}

__global__ void __launch_bounds__(most_threads)
    put(unsigned char* received, const unsigned char* sent, size_t size_bytes, unsigned* counter, int rounds, int peer,
        partita_nvshmem_report* report) {
  const auto grid = cooperative_groups::this_grid();
  const size_t piece = size_bytes / gridDim.x;
  const size_t offset = piece * blockIdx.x;
  std::uint64_t spent_ns = 0;
  for (int round = 1; round <= rounds; ++round) {
    grid.sync();
    const std::uint64_t begin_ns = gpu_now_ns();
    nvshmemx_putmem_block(received + offset, sent + offset, piece, peer);
    if (threadIdx.x == 0) {
      nvshmem_quiet();
      __threadfence();
      atomicAdd(counter, 1);
      if (blockIdx.x == 0) {  // all blocks of a cooperative launch run, so this ends
        while (*static_cast<volatile unsigned*>(counter) < gridDim.x * static_cast<unsigned>(round)) {
        }
        spent_ns += gpu_now_ns() - begin_ns;
      }
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *report = {spent_ns, 0};
}

__global__ void __launch_bounds__(most_threads)
    add_and_put(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* sums, std::uint64_t* signals,
                std::uint64_t epoch, int peer) {
  std::uint64_t* const part = sums + size_t{blockIdx.x} * blockDim.x;
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  sums[i] = a[i] + b[i];
  nvshmemx_putmem_signal_block(part, part, blockDim.x * sizeof(*part), signals + blockIdx.x, epoch, NVSHMEM_SIGNAL_SET,
                               peer);  // begins with a barrier of the block
}

template <partita_nvshmem_group group>
__device__ void put_part(unsigned char* received, const unsigned char* sent, size_t part_bytes, std::uint64_t* signals,
                         std::uint64_t epoch, int peer) {
  unsigned part = 0;
  if constexpr (group == PARTITA_NVSHMEM_THREAD) part = threadIdx.x;
  if constexpr (group == PARTITA_NVSHMEM_WARP) part = threadIdx.x / warp_threads;
  received += part * part_bytes;
  sent += part * part_bytes;
  signals += part;
  if constexpr (group == PARTITA_NVSHMEM_THREAD) {
    nvshmem_putmem_signal(received, sent, part_bytes, signals, epoch, NVSHMEM_SIGNAL_SET, peer);
  } else if constexpr (group == PARTITA_NVSHMEM_WARP) {
    nvshmemx_putmem_signal_warp(received, sent, part_bytes, signals, epoch, NVSHMEM_SIGNAL_SET, peer);
  } else {
    nvshmemx_putmem_signal_block(received, sent, part_bytes, signals, epoch, NVSHMEM_SIGNAL_SET, peer);
  }
}

template <partita_nvshmem_group group>
__global__ void __launch_bounds__(most_threads)
    mark(unsigned char* received, const unsigned char* sent, size_t part_bytes, std::uint64_t* signals,
         std::uint64_t epoch, int peer, partita_nvshmem_report* report) {
  __syncthreads();
  const long long begin = clock64();
  put_part<group>(received, sent, part_bytes, signals, epoch, peer);
  __syncthreads();
  const long long end = clock64();
  if (threadIdx.x == 0) *report = {clock_steps_to_ns(end - begin), 0};
}

int parts_of(partita_nvshmem_group group, int threads) {
  switch (group) {
    case PARTITA_NVSHMEM_THREAD:
      return threads;
    case PARTITA_NVSHMEM_WARP:
      return (threads + warp_threads - 1) / warp_threads;
    case PARTITA_NVSHMEM_BLOCK:
      break;
  }
  return 1;
}

__global__ void __launch_bounds__(most_threads) await_all(std::uint64_t* signals, int count, std::uint64_t epoch,
                                                          std::uint64_t limit_ns, partita_nvshmem_report* report) {
  bool in_time = true;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(count) && in_time; i += blockDim.x) {
    in_time = signal_comes(signals + i, epoch, limit_ns);
  }
  const bool late = __syncthreads_or(in_time ? 0 : 1) != 0;
  if (threadIdx.x == 0) *report = {0, late ? 1 : 0};
}

}  // namespace

PARTITA_PEER_EXPORT size_t partita_nvshmem_id_bytes(void) {
  return sizeof(nvshmemx_uniqueid_t);
}

PARTITA_PEER_EXPORT int partita_nvshmem_make_id(void* id) {
  nvshmemx_uniqueid_t made = NVSHMEMX_UNIQUEID_INITIALIZER;
  const int code = nvshmemx_get_uniqueid(&made);
  *static_cast<nvshmemx_uniqueid_t*>(id) = made;
  return code;
}

PARTITA_PEER_EXPORT int partita_nvshmem_start(const void* id, int rank, int ranks) {
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  const int code =
      nvshmemx_set_attr_uniqueid_args(rank, ranks, static_cast<const nvshmemx_uniqueid_t*>(id), &attributes);
  return code != 0 ? code : nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
}

PARTITA_PEER_EXPORT void partita_nvshmem_end(void) {
  nvshmem_finalize();
}

PARTITA_PEER_EXPORT void* partita_nvshmem_allocate(size_t size_bytes) {
  return nvshmem_calloc(1, size_bytes);
}

PARTITA_PEER_EXPORT void partita_nvshmem_free(void* memory) {
  nvshmem_free(memory);
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_ping_pong(void* received, const void* sent, size_t size_bytes,
                                                          uint64_t* signal, uint64_t epoch, int rounds, int threads,
                                                          int peer, int first, uint64_t limit_ns,
                                                          partita_nvshmem_report* report, cudaStream_t stream) {
  ping_pong<<<1, threads, 0, stream>>>(received, sent, size_bytes, signal, epoch, rounds, peer, first != 0, limit_ns,
                                       report);
  return cudaGetLastError();
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_put(void* received, const void* sent, size_t size_bytes,
                                                    unsigned* counter, int rounds, int blocks, int threads, int peer,
                                                    partita_nvshmem_report* report, cudaStream_t stream) {
  auto* to = static_cast<unsigned char*>(received);
  auto* from = static_cast<const unsigned char*>(sent);
  void* arguments[] = {&to, &from, &size_bytes, &counter, &rounds, &peer, &report};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(put), dim3(blocks), dim3(threads), arguments, 0,
                                     stream);
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_add_and_put(const void* a, const void* b, void* sums, uint64_t* signals,
                                                            uint64_t epoch, int blocks, int threads, int peer,
                                                            cudaStream_t stream) {
  add_and_put<<<blocks, threads, 0, stream>>>(static_cast<const std::uint64_t*>(a),
                                              static_cast<const std::uint64_t*>(b), static_cast<std::uint64_t*>(sums),
                                              signals, epoch, peer);
  return cudaGetLastError();
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_mark(void* received, const void* sent, size_t size_bytes,
                                                     uint64_t* signals, uint64_t epoch, partita_nvshmem_group group,
                                                     int threads, int peer, partita_nvshmem_report* report,
                                                     cudaStream_t stream) {
  decltype(&mark<PARTITA_NVSHMEM_BLOCK>)
      const kernels[] = {mark<PARTITA_NVSHMEM_THREAD>, mark<PARTITA_NVSHMEM_WARP>, mark<PARTITA_NVSHMEM_BLOCK>};
  const size_t part_bytes = size_bytes / parts_of(group, threads);
  kernels[group]<<<1, threads, 0, stream>>>(static_cast<unsigned char*>(received),
                                            static_cast<const unsigned char*>(sent), part_bytes, signals, epoch, peer,
                                            report);
  return cudaGetLastError();
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_await(uint64_t* signals, int count, uint64_t epoch, uint64_t limit_ns,
                                                      partita_nvshmem_report* report, cudaStream_t stream) {
  await_all<<<1, most_threads, 0, stream>>>(signals, count, epoch, limit_ns, report);
  return cudaGetLastError();
}
