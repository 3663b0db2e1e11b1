// What the calls of a partitioned allreduce on GPU memory cost.
#pragma once

#include <vector>

#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// Rows of partitioned.table1, for any number of ranks: Pallreduce_init, and of an allreduce Prequest_create and
/// Pbuf_prepare, the first one and later ones.
void add_allreduce_calls(std::vector<Contender>& contenders, Job& job, const Case& c);

}  // namespace partita::bench::gpu
