/* NVSHMEM as a library that the harness loads at run time: its device code must be linked into what launches it. */
#ifndef PARTITA_BENCH_NVSHMEM_PEER_H
#define PARTITA_BENCH_NVSHMEM_PEER_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a kernel tells; in host memory. */
struct partita_nvshmem_report {
  uint64_t ns;   /**< the time of what is measured */
  int timed_out; /**< not 0: a signal did not come within the limit, and nothing else holds */
};

/** Bytes of the name of a job. */
size_t partita_nvshmem_id_bytes(void);
/** One rank makes the name; all start with it, after they have chosen their GPUs. 0, or NVSHMEM's error. */
int partita_nvshmem_make_id(void* id);
int partita_nvshmem_start(const void* id, int rank, int ranks);
void partita_nvshmem_end(void);

/** Zeroed symmetric memory; null where there is none. Collective. */
void* partita_nvshmem_allocate(size_t size_bytes);
void partita_nvshmem_free(void* memory);

/** One block of `threads` plays `rounds` ping-pongs of put + signal with rank `peer` after one that is not timed.
 * `signal` is a symmetric word that reads `epoch` before, and `epoch` + `rounds` + 1 after. One thread puts where
 * `threads` is 1. No wait lasts longer than `limit_ns`. Launches only. */
cudaError_t partita_nvshmem_ping_pong(void* received, const void* sent, size_t size_bytes, uint64_t* signal,
                                      uint64_t epoch, int rounds, int threads, int peer, int first, uint64_t limit_ns,
                                      struct partita_nvshmem_report* report, cudaStream_t stream);

/** `blocks` × `threads` put `size_bytes` `rounds` times, complete at the target each time; `counter` is a zeroed word
 * of GPU memory. Launches only. */
cudaError_t partita_nvshmem_put(void* received, const void* sent, size_t size_bytes, unsigned* counter, int rounds,
                                int blocks, int threads, int peer, struct partita_nvshmem_report* report,
                                cudaStream_t stream);

/** Blocks of `threads` add the 8-byte words of `a` and `b`, one a thread. Block i puts its part of the sums to where
 * it lies in `sums`, symmetric memory, and sets signal i of `peer` to `epoch`. Launches only. */
cudaError_t partita_nvshmem_add_and_put(const void* a, const void* b, void* sums, uint64_t* signals, uint64_t epoch,
                                        int blocks, int threads, int peer, cudaStream_t stream);

/** Who puts together. */
enum partita_nvshmem_group { PARTITA_NVSHMEM_THREAD, PARTITA_NVSHMEM_WARP, PARTITA_NVSHMEM_BLOCK };

/** Each group of one block's `threads` puts its equal part of `size_bytes`; put i sets signal i of `peer` to `epoch`.
 * Reports the time from before the first thread's call to after the last one's. Warps must be whole, but for one
 * alone. Launches only. */
cudaError_t partita_nvshmem_mark(void* received, const void* sent, size_t size_bytes, uint64_t* signals, uint64_t epoch,
                                 enum partita_nvshmem_group group, int threads, int peer,
                                 struct partita_nvshmem_report* report, cudaStream_t stream);

/** Awaits that all `count` signals are at least `epoch`, in a kernel and none for longer than `limit_ns`. Launches
 * only. */
cudaError_t partita_nvshmem_await(uint64_t* signals, int count, uint64_t epoch, uint64_t limit_ns,
                                  struct partita_nvshmem_report* report, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
