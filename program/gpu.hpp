// GPU memory of the program's own, to try links with.
#pragma once

#include <cstddef>

namespace partita::program {

/// What of a GPU can be used here.
struct GpuUse {
  bool memory = false;  ///< cudaMalloc's
  bool pools = false;   ///< cudaMallocAsync's too
};

/// Takes the GPU of this rank's place on its node, as the apps and benchmarks do. Where there is none, nothing can be
/// used.
GpuUse choose_gpu(int rank_on_node);

/// Memory of the chosen GPU, by cudaMalloc or from its pool (cudaMallocAsync). Throws std::runtime_error where CUDA
/// fails.
void* allocate_on_gpu(std::size_t size_bytes);
void free_on_gpu(void* memory);
void* allocate_in_pool(std::size_t size_bytes);
void free_in_pool(void* memory);

}  // namespace partita::program
