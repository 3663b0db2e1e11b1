/* NVSHMEM as a library that the harness loads at run time: its device code must be linked into what launches it. */
#ifndef PARTITA_BENCH_NVSHMEM_PEER_H
#define PARTITA_BENCH_NVSHMEM_PEER_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of the name of a job. */
size_t partita_nvshmem_id_bytes(void);
/** One rank makes the name; all start with it, after they have chosen their GPUs. 0, or NVSHMEM's error. */
int partita_nvshmem_make_id(void* id);
int partita_nvshmem_start(const void* id, int rank, int ranks);
void partita_nvshmem_end(void);

/** Zeroed symmetric memory; null where there is none. Collective. */
void* partita_nvshmem_allocate(size_t size_bytes);
void partita_nvshmem_free(void* memory);

/** One block of `threads` plays `rounds` ping-pongs of put + signal with rank `peer` after one that is not timed;
 * `*ns`, in host memory, receives their time. `signal` is a symmetric word that reads `*epoch` before, and `*epoch` +
 * rounds + 1 after. One thread puts where `threads` is 1. Launches only. */
cudaError_t partita_nvshmem_ping_pong(void* received, const void* sent, size_t size_bytes, uint64_t* signal,
                                      uint64_t epoch, int rounds, int threads, int peer, int first, uint64_t* ns,
                                      cudaStream_t stream);

/** `blocks` × `threads` put `size_bytes` `rounds` times, complete at the target each time; `counter` is a zeroed word
 * of GPU memory. `*ns` receives the time of all puts. Launches only. */
cudaError_t partita_nvshmem_put(void* received, const void* sent, size_t size_bytes, unsigned* counter, int rounds,
                                int blocks, int threads, int peer, uint64_t* ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
