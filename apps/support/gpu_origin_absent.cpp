// In place of gpu_origin.cpp, in a build without CUDA, where no run is on a GPU.
#include "apps/support/gpu_origin.hpp"

namespace partita::apps {

void describe_gpu(Machine&) {}
void read_gpu_clock_rates(ClockRates&) {}

}  // namespace partita::apps
