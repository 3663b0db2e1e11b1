// The platform of CPU threads: C++20. A block is a CpuBlock that several threads have joined, a warp is one thread.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// The names of the memory orders.
namespace order = ::std;

template <class T>
using DeviceWord = ::std::atomic_ref<T>;
template <class T>
using SystemWord = ::std::atomic_ref<T>;

/// Adds 1 to a word of this GPU, relaxed; gives what it was.
inline partita_u32 increment(partita_u32& word) {
  return DeviceWord<partita_u32>(word).fetch_add(1, order::memory_order_relaxed);
}

// The fences of the platform of GPU threads. Here the accesses beside one have its order themselves: thread sanitizers
// understand that, and no fences.
inline void release_fence() {}
inline void acquire_fence() {}
inline void release_fence_on_device() {}
inline constexpr auto order_after_fence = ::std::memory_order_release;
inline constexpr auto order_before_fence = ::std::memory_order_acquire;
inline constexpr auto order_between_fences = ::std::memory_order_acq_rel;
inline constexpr auto order_release_before_fence = ::std::memory_order_acq_rel;

/// Raises four flags beside each other, as by four stores with `order_after_fence`.
inline void store_four(partita_u32* words, partita_u32 value) {
  for (int i = 0; i < 4; ++i) SystemWord<partita_u32>(words[i]).store(value, order_after_fence);
}

/// How many bits are 1.
inline partita_u32 ones_in(partita_u32 bits) {
  return static_cast<partita_u32>(::std::popcount(bits));
}

/// Returns `address`.
inline unsigned char* worked_out_now(unsigned char* address) {
  return address;
}

/// Returns `value`.
inline partita_i32 worked_out_later(partita_i32 value) {
  return value;
}

inline partita_u64 now_ns() {
  const auto now = ::std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<partita_u64>(::std::chrono::duration_cast<::std::chrono::nanoseconds>(now).count());
}

/// Has no meaning here: no load takes time.
inline partita_u32 clock_cycles() {
  return 0;
}

/// A wait looks at the host's words once in so many polls: a poll is a turn of the scheduler.
inline constexpr partita_u32 polls_per_look = 8;
inline constexpr partita_u32 polls_per_far_look = 32;

/// Between two polls of a wait.
inline void relax() {
  ::std::this_thread::yield();
}

// ---- The block -----------------------------------------------------------------------------------------------------

/// CPU threads that act as one block of the device API. A thread that has joined none is a block of its own.
class CpuBlock {
 public:
  /// `threads` of them join.
  explicit CpuBlock(partita_u32 threads)
      : threads_(threads), barrier_(static_cast<::std::ptrdiff_t>(threads)), turns_(threads) {}
  CpuBlock(const CpuBlock&) = delete;
  CpuBlock& operator=(const CpuBlock&) = delete;

  partita_u32 threads() const { return threads_; }
  void barrier() { barrier_.arrive_and_wait(); }

  bool any(bool mine, partita_u32 rank) {
    // Three words in turn: one is read, the next one is cleared for the call to come, when nobody reads it any more.
    const partita_u32 turn = turns_[rank]++;
    if (mine) any_[turn % 3].store(true, ::std::memory_order_relaxed);
    any_[(turn + 1) % 3].store(false, ::std::memory_order_relaxed);
    barrier();
    return any_[turn % 3].load(::std::memory_order_relaxed);
  }

  partita_u32 broadcast(bool first, partita_u32 value) {
    if (first) value_ = value;
    barrier();
    return value_;
  }

 private:
  partita_u32 threads_;
  ::std::barrier<> barrier_;
  ::std::array<::std::atomic<bool>, 3> any_{};
  ::std::vector<partita_u32> turns_;  ///< calls of each rank, whichever threads have joined as it
  partita_u32 value_ = 0;
};

/// Where a block is in its grid.
struct CpuGrid {
  partita_u32 rank = 0;
  partita_u32 blocks = 1;
  bool is_resident = true;  ///< as if launched cooperatively
};

/// While it lives, the calling thread is thread `rank` of `block`.
class CpuBlockThread {
 public:
  CpuBlockThread(CpuBlock& block, partita_u32 rank, CpuGrid grid = {}) : block_(block), rank_(rank), grid_(grid) {
    joined_ = this;
  }
  ~CpuBlockThread() { joined_ = nullptr; }
  CpuBlockThread(const CpuBlockThread&) = delete;
  CpuBlockThread& operator=(const CpuBlockThread&) = delete;

  static CpuBlockThread* joined() { return joined_; }

  CpuBlock& block() { return block_; }
  partita_u32 rank() const { return rank_; }
  const CpuGrid& grid() const { return grid_; }
  bool any(bool mine) { return block_.any(mine, rank_); }

 private:
  static inline thread_local CpuBlockThread* joined_ = nullptr;

  CpuBlock& block_;
  partita_u32 rank_;
  CpuGrid grid_;
};

inline partita_u32 block_threads() {
  CpuBlockThread* const self = CpuBlockThread::joined();
  return self == nullptr ? 1 : self->block().threads();
}
inline partita_u32 block_rank() {
  CpuBlockThread* const self = CpuBlockThread::joined();
  return self == nullptr ? 0 : self->rank();
}
inline void block_barrier() {
  if (CpuBlockThread* const self = CpuBlockThread::joined()) self->block().barrier();
}
/// A barrier that tells every thread whether any of them said true.
inline bool block_any(bool mine) {
  CpuBlockThread* const self = CpuBlockThread::joined();
  return self == nullptr ? mine : self->any(mine);
}
/// Thread 0's value, for all. A barrier must lie between two calls.
inline partita_u32 block_broadcast(partita_u32 value) {
  CpuBlockThread* const self = CpuBlockThread::joined();
  return self == nullptr ? value : self->block().broadcast(self->rank() == 0, value);
}

// ---- The grid ------------------------------------------------------------------------------------------------------

inline CpuGrid cpu_grid() {
  const CpuBlockThread* const self = CpuBlockThread::joined();
  return self == nullptr ? CpuGrid() : self->grid();
}
inline partita_u32 grid_blocks() {
  return cpu_grid().blocks;
}
inline partita_u32 grid_rank() {
  return cpu_grid().rank;
}
/// Whether all its blocks run at once.
inline bool grid_is_resident() {
  return cpu_grid().is_resident;
}

// ---- The lanes of a warp -------------------------------------------------------------------------------------------

using Lanes = partita_u32;

inline constexpr partita_u32 warp_threads = 1;

inline partita_u32 lane() {
  return 0;
}
inline partita_u32 warp_of_block() {
  return block_rank();
}
inline Lanes lanes_of_warp() {
  return 1;
}
inline Lanes active_lanes() {
  return 1;
}
template <class T>
Lanes lanes_with_same(Lanes lanes, T) {
  return lanes;
}
inline Lanes lanes_where(Lanes, bool mine) {
  return mine ? 1 : 0;
}
inline Lanes own_lane() {
  return 1;
}
inline partita_u32 count_of(Lanes lanes) {
  return lanes;
}
inline partita_u32 first_of(Lanes) {
  return 0;
}
inline partita_u32 rank_in(Lanes) {
  return 0;
}
inline partita_u32 value_of_lane(Lanes, partita_u32 value, partita_u32) {
  return value;
}
inline void lanes_barrier(Lanes) {}

// ---- Packets -------------------------------------------------------------------------------------------------------

/// 16 bytes that travel together; each half arrives whole.
struct PacketWords {
  partita_u64 first;
  partita_u64 second;
};

/// Pairs with load_packet.
inline void store_packet(unsigned char* slot, PacketWords words) {
  auto* const halves = reinterpret_cast<partita_u64*>(slot);
  SystemWord<partita_u64>(halves[0]).store(words.first, order::memory_order_relaxed);
  SystemWord<partita_u64>(halves[1]).store(words.second, order::memory_order_relaxed);
}
/// Pairs with store_packet.
inline PacketWords load_packet(const unsigned char* slot) {
  auto* const halves = reinterpret_cast<partita_u64*>(const_cast<unsigned char*>(slot));
  return {SystemWord<partita_u64>(halves[0]).load(order::memory_order_relaxed),
          SystemWord<partita_u64>(halves[1]).load(order::memory_order_relaxed)};
}

}  // namespace partita::device
