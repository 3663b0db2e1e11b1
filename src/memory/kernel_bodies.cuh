// The bodies of the library's own kernels: one source for GPUs and, as the fake GPU of tests runs them, for CPU
// threads.
#pragma once

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

}  // namespace partita::memory
