#include "bench/gpu/nvshmem_peer.h"

#include <cooperative_groups.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#define PARTITA_PEER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__device__ void put_and_signal(void* received, const void* sent, size_t size_bytes, std::uint64_t* signal,
                               std::uint64_t value, int peer) {
  if (blockDim.x == 1) {
    nvshmem_putmem_signal(received, sent, size_bytes, signal, value, NVSHMEM_SIGNAL_SET, peer);
  } else {
    nvshmemx_putmem_signal_block(received, sent, size_bytes, signal, value, NVSHMEM_SIGNAL_SET, peer);
  }
}

__device__ void await_signal(std::uint64_t* signal, std::uint64_t value) {
  if (threadIdx.x == 0) nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, value);
  __syncthreads();
}

__global__ void ping_pong(void* received, const void* sent, size_t size_bytes, std::uint64_t* signal,
                          std::uint64_t epoch, int rounds, int peer, bool first, std::uint64_t* ns) {
  std::uint64_t begin_ns = 0;
  for (int i = 0; i <= rounds; ++i) {
    if (i == 1) begin_ns = now_ns();
    const std::uint64_t value = epoch + i + 1;
    if (!first) await_signal(signal, value);
    put_and_signal(received, sent, size_bytes, signal, value, peer);
    if (first) await_signal(signal, value);
  }
  if (threadIdx.x == 0) *ns = now_ns() - begin_ns;
}

__global__ void put(unsigned char* received, const unsigned char* sent, size_t size_bytes, unsigned* counter,
                    int rounds, int peer, std::uint64_t* ns) {
  const auto grid = cooperative_groups::this_grid();
  const size_t piece = size_bytes / gridDim.x;
  const size_t offset = piece * blockIdx.x;
  std::uint64_t spent_ns = 0;
  for (int round = 1; round <= rounds; ++round) {
    grid.sync();
    const std::uint64_t begin_ns = now_ns();
    nvshmemx_putmem_block(received + offset, sent + offset, piece, peer);
    if (threadIdx.x == 0) {
      nvshmem_quiet();
      __threadfence();
      atomicAdd(counter, 1);
      if (blockIdx.x == 0) {
        while (*static_cast<volatile unsigned*>(counter) < gridDim.x * static_cast<unsigned>(round)) {
        }
        spent_ns += now_ns() - begin_ns;
      }
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *ns = spent_ns;
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
                                                          int peer, int first, uint64_t* ns, cudaStream_t stream) {
  ping_pong<<<1, threads, 0, stream>>>(received, sent, size_bytes, signal, epoch, rounds, peer, first != 0, ns);
  return cudaGetLastError();
}

PARTITA_PEER_EXPORT cudaError_t partita_nvshmem_put(void* received, const void* sent, size_t size_bytes,
                                                    unsigned* counter, int rounds, int blocks, int threads, int peer,
                                                    uint64_t* ns, cudaStream_t stream) {
  auto* to = static_cast<unsigned char*>(received);
  auto* from = static_cast<const unsigned char*>(sent);
  void* arguments[] = {&to, &from, &size_bytes, &counter, &rounds, &peer, &ns};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(put), dim3(blocks), dim3(threads), arguments, 0,
                                     stream);
}
