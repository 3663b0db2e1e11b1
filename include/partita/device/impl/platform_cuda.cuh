// The platform of GPU threads: nvcc and NVRTC, sm_70 and later.
#pragma once

#include <cooperative_groups.h>

#include <cuda/atomic>

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// The names of the memory orders.
namespace order = ::cuda::std;

/// A word that only threads of this GPU share.
template <class T>
using DeviceWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_device>;
/// A word shared with other GPUs or with the host.
template <class T>
using SystemWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;

/// Adds 1 to a word of this GPU, relaxed; gives what it was. Where ptxas sees that the lanes of a warp would add to the
/// same word, it makes one addition of them and waits for its result on the spot, to hand it round. So the address is
/// made to look as if it varied with the lane: no lane comes before itself, so the highest bit is never set.
PARTITA_DEVICE_INLINE partita_u32 increment(partita_u32& word) {
  partita_u32 lanes_before;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes_before));
  return DeviceWord<partita_u32>((&word)[lanes_before >> 31]).fetch_add(1, order::memory_order_relaxed);
}

// Fences at system scope; `release_fence_on_device` is one for the threads of this GPU alone. `release_fence` orders
// everything that this thread has seen or done before its stores after it; they are done with `order_after_fence`.
// `acquire_fence` brings what was released to the words that it has loaded before its eyes; they are loaded with
// `order_before_fence`. An addition that counts threads is done with `order_between_fences`, or with
// `order_release_before_fence` where no release fence lies before it. From sm_90 on an acquire fence only empties the
// cache of the multiprocessor, and a release fence leaves that alone; before, a fence always does both, so that loads
// and additions acquire by themselves.
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ >= 13
PARTITA_DEVICE_INLINE void release_fence() {
  asm volatile("fence.release.sys;" ::: "memory");
}
PARTITA_DEVICE_INLINE void acquire_fence() {
  asm volatile("fence.acquire.sys;" ::: "memory");
}
PARTITA_DEVICE_INLINE void release_fence_on_device() {
  asm volatile("fence.release.gpu;" ::: "memory");
}
inline constexpr auto order_before_fence = ::cuda::std::memory_order_relaxed;
inline constexpr auto order_between_fences = ::cuda::std::memory_order_relaxed;
inline constexpr auto order_release_before_fence = ::cuda::std::memory_order_release;
#else
PARTITA_DEVICE_INLINE void release_fence() {
  ::cuda::atomic_thread_fence(order::memory_order_acq_rel, ::cuda::thread_scope_system);
}
PARTITA_DEVICE_INLINE void acquire_fence() {}
PARTITA_DEVICE_INLINE void release_fence_on_device() {
  ::cuda::atomic_thread_fence(order::memory_order_acq_rel, ::cuda::thread_scope_device);
}
inline constexpr auto order_before_fence = ::cuda::std::memory_order_acquire;
inline constexpr auto order_between_fences = ::cuda::std::memory_order_acquire;
inline constexpr auto order_release_before_fence = ::cuda::std::memory_order_acq_rel;
#endif
inline constexpr auto order_after_fence = ::cuda::std::memory_order_relaxed;

/// Raises four flags beside each other, as by four stores with `order_after_fence`; `words` is a multiple of 16 bytes.
/// Each element is single-copy atomic at system scope (PTX memory model, vector types).
PARTITA_DEVICE_INLINE void store_four(partita_u32* words, partita_u32 value) {
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %1, %1, %1};" ::"l"(__cvta_generic_to_global(words)), "r"(value)
               : "memory");
}

/// How many bits are 1.
PARTITA_DEVICE_INLINE partita_u32 ones_in(partita_u32 bits) {
  return static_cast<partita_u32>(__popc(bits));
}

/// Returns `address`, which the compiler works out here, not behind the loads that are on their way.
PARTITA_DEVICE_INLINE unsigned char* worked_out_now(unsigned char* address) {
  asm volatile("" : "+l"(address));
  return address;
}

/// Returns `value`. What the compiler works out of it, it works out behind this, and holds in no register before.
PARTITA_DEVICE_INLINE partita_i32 worked_out_later(partita_i32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

PARTITA_DEVICE_INLINE partita_u64 now_ns() {
  partita_u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
/// The clock of the multiprocessor.
PARTITA_DEVICE_INLINE partita_u32 clock_cycles() {
  partita_u32 cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

/// A wait looks at its release in GPU memory once in so many polls, and at the host's word and the clock, which are far
/// away, once in so many: a multiple.
inline constexpr partita_u32 polls_per_look = 32;
inline constexpr partita_u32 polls_per_far_look = 1024;

/// Between two polls of a wait.
PARTITA_DEVICE_INLINE void relax() {}

// ---- The block -----------------------------------------------------------------------------------------------------

PARTITA_DEVICE_INLINE partita_u32 block_threads() {
  return blockDim.x * blockDim.y * blockDim.z;
}
PARTITA_DEVICE_INLINE partita_u32 block_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
PARTITA_DEVICE_INLINE void block_barrier() {
  __syncthreads();
}
/// A barrier that tells every thread whether any of them said true.
PARTITA_DEVICE_INLINE bool block_any(bool mine) {
  return __syncthreads_or(mine) != 0;
}
/// Thread 0's value, for all. A barrier must lie between two calls.
PARTITA_DEVICE_INLINE partita_u32 block_broadcast(partita_u32 value) {
  __shared__ partita_u32 shared_value;
  if (block_rank() == 0) shared_value = value;
  __syncthreads();
  return shared_value;
}

// ---- The grid ------------------------------------------------------------------------------------------------------

PARTITA_DEVICE_INLINE partita_u32 grid_blocks() {
  return gridDim.x * gridDim.y * gridDim.z;
}
PARTITA_DEVICE_INLINE partita_u32 grid_rank() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
/// Whether all its blocks run at once: they were launched cooperatively.
PARTITA_DEVICE_INLINE bool grid_is_resident() {
  return ::cooperative_groups::this_grid().is_valid();
}

// ---- The lanes of a warp -------------------------------------------------------------------------------------------

using Lanes = partita_u32;

inline constexpr partita_u32 warp_threads = 32;

PARTITA_DEVICE_INLINE partita_u32 lane() {
  return block_rank() % warp_threads;
}
PARTITA_DEVICE_INLINE partita_u32 warp_of_block() {
  return block_rank() / warp_threads;
}
/// The lanes of this thread's warp that the block has: all but in a block's last warp.
PARTITA_DEVICE_INLINE Lanes lanes_of_warp() {
  const partita_u32 count = block_threads() - warp_of_block() * warp_threads;
  return count >= warp_threads ? 0xffffffffu : (1u << count) - 1u;
}
/// The lanes that run this very instruction together; fewer than could, at worst.
PARTITA_DEVICE_INLINE Lanes active_lanes() {
  return __activemask();
}
// Where two groups of a warp run the same instruction at once, the hardware may show each the other's lanes (seen), so
// those are masked out.
PARTITA_DEVICE_INLINE Lanes lanes_with_same(Lanes lanes, partita_u32 value) {
  return __match_any_sync(lanes, value) & lanes;
}
PARTITA_DEVICE_INLINE Lanes lanes_with_same(Lanes lanes, const void* value) {
  return __match_any_sync(lanes, reinterpret_cast<unsigned long long>(value)) & lanes;
}
PARTITA_DEVICE_INLINE Lanes lanes_where(Lanes lanes, bool mine) {
  return __ballot_sync(lanes, mine) & lanes;
}
PARTITA_DEVICE_INLINE Lanes own_lane() {
  return 1u << lane();
}
PARTITA_DEVICE_INLINE partita_u32 count_of(Lanes lanes) {
  return static_cast<partita_u32>(__popc(lanes));
}
PARTITA_DEVICE_INLINE partita_u32 first_of(Lanes lanes) {
  return static_cast<partita_u32>(__ffs(static_cast<int>(lanes)) - 1);
}
/// How many of `lanes` come before this one.
PARTITA_DEVICE_INLINE partita_u32 rank_in(Lanes lanes) {
  return static_cast<partita_u32>(__popc(lanes & (own_lane() - 1u)));
}
PARTITA_DEVICE_INLINE partita_u32 value_of_lane(Lanes lanes, partita_u32 value, partita_u32 source) {
  return __shfl_sync(lanes, value, static_cast<int>(source));
}
/// A barrier of `lanes`: what each did before, all see after.
PARTITA_DEVICE_INLINE void lanes_barrier(Lanes lanes) {
  __syncwarp(lanes);
}

// ---- Packets -------------------------------------------------------------------------------------------------------

/// 16 bytes that travel together; each half arrives whole.
struct PacketWords {
  partita_u64 first;
  partita_u64 second;
};

/// Pairs with load_packet: each 8-byte element is single-copy atomic at system scope (PTX memory model, vector types).
PARTITA_DEVICE_INLINE void store_packet(unsigned char* slot, PacketWords words) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(slot)), "l"(words.first),
               "l"(words.second)
               : "memory");
}
/// Pairs with store_packet.
PARTITA_DEVICE_INLINE PacketWords load_packet(const unsigned char* slot) {
  PacketWords words;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(words.first), "=l"(words.second)
               : "l"(__cvta_generic_to_global(slot))
               : "memory");
  return words;
}

}  // namespace partita::device
