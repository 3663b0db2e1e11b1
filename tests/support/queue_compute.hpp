// What a program of tests computes in the order of a queue's stream, between starts and waits: by the host on queues of
// the host (queue_compute_host.cpp), by functions on the fake GPU (queue_compute_fake.cpp) and by kernels on CUDA
// (queue_compute_cuda.cu).
#pragma once

#include "support/memory.hpp"

#if defined(__CUDACC__)
#define PARTITEST_HOST_DEVICE __host__ __device__
#else
#define PARTITEST_HOST_DEVICE
#endif

namespace partita::test {

/// Numbers that follow from one, and from others where there are any.
struct Computation {
  int* to;
  int to_count;
  const int* from;
  int from_count;
  int number;

  PARTITEST_HOST_DEVICE int value(int i) const {
    return number + i + (from_count > 0 ? from[i % from_count] % 1'000 : 0);
  }
};

inline void compute(const Computation& computation) {
  for (int i = 0; i < computation.to_count; ++i) computation.to[i] = computation.value(i);
}

/// Whether one computation in the stream reaches memory of both kinds.
bool queue_reaches(Memory to, Memory from);
/// Computes in the stream of queue_stream(which), behind all that it was asked for; both buffers lie in such `memory`.
void compute_in_queue(int which, const Computation& computation, Memory memory);
/// Blocks until that stream has done all that it was asked for.
void drain_queue(int which);

}  // namespace partita::test
