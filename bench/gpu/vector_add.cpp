#include "bench/gpu/vector_add.hpp"

#include "bench/failure.hpp"

namespace partita::bench::gpu {

int vector_add_blocks(std::int64_t size_bytes) {
  if (size_bytes % vector_add_block_bytes != 0) {
    throw Failure(
        "{} bytes are no whole number of blocks of {} threads that add 8 bytes each; give -m in multiples of {}.",
        size_bytes, vector_add_threads, vector_add_block_bytes);
  }
  return static_cast<int>(size_bytes / vector_add_block_bytes);
}

}  // namespace partita::bench::gpu
