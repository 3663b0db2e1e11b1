// The entry points of the kernels that do a collective, in an image of their own, which compiles beside the
// other one.
#include "memory/collective_bodies.cuh"

namespace memory = partita::memory;

extern "C" __global__ void __launch_bounds__(memory::DoCollective::most_threads)
    partita_do_collective(const __grid_constant__ memory::DoCollective arguments) {
  memory::do_collective(arguments);
}

extern "C" __global__ void __launch_bounds__(memory::ReducePushed::most_threads)
    partita_reduce_pushed(const __grid_constant__ memory::ReducePushed arguments) {
  memory::reduce_pushed(arguments);
}
