// The bodies of the library's own kernels: one source for GPUs and, as the fake GPU of tests runs them, for CPU
// threads.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/platform.cuh>
#include "memory/kernels.hpp"

#if !defined(__CUDACC__)
#include <cstdlib>
#endif

namespace partita::memory {

/// No thread of the grid goes on, and the next call on the stream fails.
PARTITA_DEVICE_INLINE void give_up() {
#if defined(__CUDACC__)
  asm volatile("trap;");
#else
  ::std::abort();
#endif
}

/// What `word` of `bytes` holds. Acquires what was released to it.
PARTITA_DEVICE_INLINE partita_u64 load_word(const void* word, partita_u32 bytes) {
  void* const address = const_cast<void*>(word);
  if (bytes == 8) {
    return device::SystemWord<partita_u64>(*static_cast<partita_u64*>(address))
        .load(device::order::memory_order_acquire);
  }
  return device::SystemWord<partita_u32>(*static_cast<partita_u32*>(address)).load(device::order::memory_order_acquire);
}

/// One thread.
PARTITA_DEVICE_INLINE void store_words(const StoreWords& arguments) {
  for (partita_u32 i = 0; i < arguments.count; ++i) {
    const WordStore& store = arguments.stores[i];
    const partita_u64 value = store.from != nullptr ? load_word(store.from, store.bytes) : store.value;
    // Pair with the acquire loads of whoever awaits the word.
    if (store.bytes == 8) {
      device::SystemWord<partita_u64>(*static_cast<partita_u64*>(store.word))
          .store(value, device::order::memory_order_release);
    } else {
      device::SystemWord<partita_u32>(*static_cast<partita_u32*>(store.word))
          .store(static_cast<partita_u32>(value), device::order::memory_order_release);
    }
  }
}

/// Whether a word that reads `seen` ends a wait for `wanted`.
PARTITA_DEVICE_INLINE bool ends_wait(partita_u64 seen, partita_u64 wanted, const AwaitWord& wait) {
  if (wait.until == Until::equal) return seen == wanted;
  const partita_u64 ahead = seen - wanted;
  return wait.bytes == 8 ? static_cast<partita_i64>(ahead) >= 0
                         : static_cast<partita_i32>(static_cast<partita_u32>(ahead)) >= 0;
}

/// One thread.
PARTITA_DEVICE_INLINE void await_word(const AwaitWord& wait) {
  constexpr partita_u32 polls_per_look = 256;
  const partita_u64 wanted = wait.from != nullptr ? load_word(wait.from, wait.bytes) : wait.value;
  const partita_u64 begin = device::now_ns();
  for (partita_u32 polls = 1; !ends_wait(load_word(wait.word, wait.bytes), wanted, wait); ++polls) {
    device::relax();
    if (polls % polls_per_look != 0 || device::now_ns() - begin < wait.limit_ns) continue;
    if (wait.late == nullptr) return give_up();
    // Pairs with the host's load, which tells of it.
    device::SystemWord<partita_u32>(*wait.late).store(1, device::order::memory_order_release);
    return;
  }
}

/// All threads of `blocks` blocks, of which this is `block`.
PARTITA_DEVICE_INLINE void copy_and_store(const CopyAndStore& arguments, partita_u32 block, partita_u32 blocks) {
  const partita_u32 threads = device::block_threads();
  device::copy(static_cast<unsigned char*>(arguments.to), static_cast<const unsigned char*>(arguments.from),
               static_cast<partita_i64>(arguments.size_bytes),
               {block * threads + device::block_rank(), blocks * threads});
  device::block_barrier();  // the block's bytes lie before thread 0's eyes
  if (device::block_rank() != 0) return;
  if (blocks > 1) {
    device::release_fence();  // to other GPUs too: the words below go there
    // Each block releases its bytes to the last one, which acquires them.
    device::DeviceWord<partita_u32> done(*arguments.blocks_done);
    if (done.fetch_add(1, device::order::memory_order_acq_rel) != blocks - 1) return;
    done.store(0, device::order::memory_order_relaxed);  // for the next launch
  }
  store_words(arguments.then);
}

/// All threads of one block.
PARTITA_DEVICE_INLINE void tell_peers(const TellPeers& arguments) {
  const partita_u32 value =
      arguments.from != nullptr ? static_cast<partita_u32>(load_word(arguments.from, 4)) : arguments.value;
  for (partita_u32 i = device::block_rank(); i < arguments.count; i += device::block_threads()) {
    const Partita_Peer& peer = arguments.peers[i];
    partita_u32* const words = arguments.on_host != 0 ? peer.host_words : peer.device_words;
    // Pairs with the acquire load of the peer's kernel or host.
    device::SystemWord<partita_u32>(words[arguments.word]).store(value, device::order::memory_order_release);
  }
}

}  // namespace partita::memory
