// C = A + B on doubles, one a thread of blocks of 1,024, where C is then summed over all ranks.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/device/prequest.h>

#include <cstdint>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

struct Sum {
  const double* a;
  const double* b;
  double* c;
  std::int64_t count;  ///< a multiple of the threads of a block
};

void launch_add(const Sum& sum, cudaStream_t stream);

/// Adds likewise, and block i then marks partition i of the host-driven `allreduce`, whose send buffer is C. Errors go
/// to the request's host.
void launch_add_and_mark(const Sum& sum, const MPIX_Prequest& allreduce, cudaStream_t stream);

/// Adds, and does the device-driven `allreduce` of C, with a grid of `blocks` that runs at once. Reports an error only.
void launch_add_and_allreduce(const Sum& sum, const MPIX_Prequest& allreduce, int blocks, KernelReport* report,
                              cudaStream_t stream);
/// The blocks that this GPU runs at once of that kernel. Each kernel below has a block on every multiprocessor at
/// least.
int most_allreduce_blocks();

/// Adds, reduces C over the node by the device-driven `scatter`, and marks the partitions of the host-driven `across`,
/// whose send buffer is this rank's part. With a grid of `blocks` that runs at once. Reports an error only.
void launch_add_and_scatter(const Sum& sum, const MPIX_Prequest& scatter, const MPIX_Prequest& across, int partitions,
                            int blocks, KernelReport* report, cudaStream_t stream);
/// The same by the device-driven allreduce `within`, whose receive buffer `across` sends.
void launch_add_and_sum_in_node(const Sum& sum, const MPIX_Prequest& within, const MPIX_Prequest& across,
                                int partitions, int blocks, KernelReport* report, cudaStream_t stream);
/// Does the device-driven allgather. With a grid of `blocks` that runs at once. Reports an error only.
void launch_gather(const MPIX_Prequest& gather, int blocks, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
