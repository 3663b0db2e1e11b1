// The entry point of the kernel that does a collective, in an image of its own, which compiles beside the
// other one.
#include "memory/collective_bodies.cuh"

namespace memory = partita::memory;

extern "C" __global__ void __launch_bounds__(memory::DoCollective::most_threads)
    partita_do_collective(const __grid_constant__ memory::DoCollective arguments) {
  memory::do_collective(arguments);
}
