// C = A + B on 8-byte words, one a thread, by blocks of 1,024 threads: the papers' computation.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

inline constexpr int vector_add_threads = 1024;
inline constexpr std::int64_t vector_add_block_bytes = vector_add_threads * 8;

struct Addends {
  const std::byte* a;
  const std::byte* b;
};

/// Blocks for `size_bytes`; Failure where that is no whole number of them.
int vector_add_blocks(std::int64_t size_bytes);

void launch_vector_add(const Addends& addends, std::byte* c, int blocks, cudaStream_t stream);

/// Adds likewise, and block i then marks partition i of `send`, whose buffer is `c`. Errors go to the request's host.
void launch_vector_add_and_mark(const Addends& addends, std::byte* c, int blocks, const MPIX_Prequest& send,
                                cudaStream_t stream);

/// Adds and marks likewise, with the sums stored straight into the receiver's memory (a send in place).
void launch_vector_add_in_place(const Addends& addends, int blocks, const MPIX_Prequest& send, cudaStream_t stream);

/// Epochs of launch_vector_add_epochs that follow the timed ones, and complete what those have opened.
inline constexpr int untimed_epochs = 1;

/// One kernel that adds and marks in each of `epochs` timed epochs of a device-driven send and in the untimed ones. In
/// all but the last one of all, the sums are too large, each time by less. Reports the time from the moment that the
/// receiver has opened the first epoch to the moment that it has opened the first untimed one. Launches only. Leaves
/// room on the GPU for a receiving kernel of one block, should both ranks have the same.
void launch_vector_add_epochs(const Addends& addends, std::byte* c, int partitions, const MPIX_Prequest& send,
                              int epochs, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
