// GPU memory in the MPI's own calls, which the MPI itself does not take (docs/design/gpu-aware.md).
#pragma once

#include <mpi.h>

#include <atomic>

#include "capi/gpu_aware.hpp"
#include "dropin/native.hpp"

namespace partita::dropin {

namespace internal {
inline constinit std::atomic<bool> takes_gpu_memory{false};
}  // namespace internal

/// The runtime has started: what the ranks have agreed on holds.
inline void open_gpu_awareness() {
  internal::takes_gpu_memory.store(Partita_is_gpu_aware(nullptr) != 0, std::memory_order_relaxed);
}
/// It ends.
inline void close_gpu_awareness() {
  internal::takes_gpu_memory.store(false, std::memory_order_relaxed);
}

/// Whether buffers in the memory of a GPU are Partita's to move, since the MPI would not take them. One load.
inline bool takes_gpu_memory() {
  return internal::takes_gpu_memory.load(std::memory_order_relaxed);
}
/// Whether that is so, and a buffer is such a one.
inline bool is_in_gpu(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return takes_gpu_memory() && Partita_gpu_of(buffer, count, datatype) >= 0;
}

}  // namespace partita::dropin
