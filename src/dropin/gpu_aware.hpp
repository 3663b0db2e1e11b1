// GPU memory in the MPI's own calls, which the MPI itself does not take (docs/design/gpu-aware.md).
#pragma once

#include <mpi.h>

#include <atomic>

#include "capi/gpu_aware.hpp"
#include "dropin/native.hpp"

namespace partita::dropin {

namespace internal {
inline constinit std::atomic<bool> takes_gpu_memory{false};
inline constinit std::atomic<bool> takes_offers{false};
}  // namespace internal

/// Whether buffers in the memory of a GPU are Partita's to move, since the MPI would not take them. One load.
inline bool takes_gpu_memory() {
  return internal::takes_gpu_memory.load(std::memory_order_relaxed);
}
/// Whether all receives are Partita's, since messages may be offers.
inline bool takes_offers() {
  return internal::takes_offers.load(std::memory_order_relaxed);
}
/// Whether a buffer is in GPU memory that is Partita's to move.
inline bool is_in_gpu(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return takes_gpu_memory() && Partita_gpu_of(buffer, count, datatype) >= 0;
}
/// Whether a receive into that buffer is Partita's: messages may be offers (PARTITA_PEER_MESSAGES), or it is such a
/// one.
inline bool receives_here(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  return takes_gpu_memory() && (takes_offers() || Partita_gpu_of(buffer, count, datatype) >= 0);
}

/// The runtime has started: what the ranks have agreed on holds. Where this fails it must on all ranks.
inline int open_gpu_awareness() {
  internal::takes_gpu_memory.store(Partita_is_gpu_aware(nullptr) != 0, std::memory_order_relaxed);
  int taken = 0;
  const int code = takes_gpu_memory() ? Partita_Take_offers(&taken) : MPI_SUCCESS;
  internal::takes_offers.store(taken != 0, std::memory_order_relaxed);
  return code;
}
/// It ends.
inline void close_gpu_awareness() {
  internal::takes_offers.store(false, std::memory_order_relaxed);
  internal::takes_gpu_memory.store(false, std::memory_order_relaxed);
}

}  // namespace partita::dropin
