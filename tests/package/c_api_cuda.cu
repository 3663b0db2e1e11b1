// The C program as CUDA C++, beside kernels that mark and await. Whether these run is no matter of the package: they
// are compiled and linked, and the host's part runs where there is no GPU.
#include "c_api.c"

#include <partita/device.cuh>

extern "C" __global__ void mark(Partita_Prequest send) {
  Partita_Pready_block(static_cast<int>(blockIdx.x), send);
}

extern "C" __global__ void await(Partita_Prequest receive) {
  Partita_Pwait_partition(static_cast<int>(blockIdx.x), receive);
}
