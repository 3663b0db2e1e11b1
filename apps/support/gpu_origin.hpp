// What a record says of the GPU of a rank.
#pragma once

#include "apps/support/clock_rates.hpp"
#include "apps/support/machine.hpp"

namespace partita::apps {

/// Adds this rank's GPU, CUDA's current device. Throws std::runtime_error.
void describe_gpu(Machine& machine);
/// Adds its clocks, as far as NVIDIA's management library tells them.
void read_gpu_clock_rates(ClockRates& rates);

}  // namespace partita::apps
