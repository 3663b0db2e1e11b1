// The entry points of the library's own kernels; compiled to one image for all GPUs, which the library carries.
#include "memory/epoch_bodies.cuh"
#include "memory/kernel_bodies.cuh"
#include "memory/message_bodies.cuh"
#include "memory/pack_bodies.cuh"
#include "memory/reduce_bodies.cuh"

namespace memory = partita::memory;

extern "C" __global__ void partita_store_words(const memory::StoreWords arguments) {
  memory::store_words(arguments);
}

extern "C" __global__ void partita_await_word(const memory::AwaitWord arguments) {
  memory::await_word(arguments);
}

extern "C" __global__ void __launch_bounds__(512) partita_reduce_elements(const memory::ReduceElements arguments) {
  memory::reduce_elements(arguments, {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x});
}

extern "C" __global__ void __launch_bounds__(512) partita_pack_elements(const memory::PackElements arguments) {
  memory::pack_elements(arguments, {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x});
}

extern "C" __global__ void __launch_bounds__(512)
    partita_pack_together(const __grid_constant__ memory::PackTogether arguments) {
  memory::pack_together(arguments, blockIdx.x, threadIdx.x, blockDim.x);
}

extern "C" __global__ void __launch_bounds__(512) partita_run_message(const memory::RunMessage arguments) {
  memory::run_message(arguments, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(512) partita_run_messages(const memory::RunMessages arguments) {
  memory::run_messages(arguments, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(memory::RunEpochs::most_threads)
    partita_run_epochs(const __grid_constant__ memory::RunEpochs arguments) {
  memory::run_epoch(arguments.requests[blockIdx.x], arguments.step);
}
