// Measurements of what the calls that mark cost the threads of one block.
#pragma once

#include <memory>
#include <string>

#include "bench/gpu/mark_cost.hpp"
#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// Rank 0's one block of `threads`, each of which makes its call once an epoch.
struct MarkingBlock {
  Granularity granularity;
  int threads;
};

/// Microseconds from before the first thread's call to after the last one's, the mean of the round's epochs. `copy`
/// moves the bytes: kernel or engine; empty: the library's choice.
std::unique_ptr<Measurement> marking(Job& job, std::string name, const Case& c, const MarkingBlock& block,
                                     const char* copy);

/// Measures NVSHMEM's put and signal likewise. Null with --nvshmem none, and where NVSHMEM has no such call: for the
/// default granularity, and for warps that are not whole.
std::unique_ptr<Measurement> nvshmem_marking(Job& job, std::string name, const Case& c, const MarkingBlock& block);

}  // namespace partita::bench::gpu
