// Addresses that cannot be those of GPU memory.
#pragma once

namespace partita::memory {

/// Whether `address` lies where no driver gives out memory of a GPU: in the heap that grows with brk(2), where small
/// allocations lie, or on the calling thread's stack, in the frames of its callers. A few nanoseconds. False says
/// nothing.
bool is_surely_host(const void* address) noexcept;

}  // namespace partita::memory
