// A program's source whose kernel reduces what marks have pushed, compiled as nvcc does by default: a product and a sum
// may become one operation there. contraction_test.py looks at the PTX.
#define PARTITA_DEVICE_PUSHED_COLLECTIVES
#include <partita/device.cuh>

extern "C" __global__ void reduces(const __grid_constant__ MPIX_Prequest request, int* code) {
  *code = MPIX_Pwait(request);
}

/// What becomes one operation.
extern "C" __global__ void multiplies_and_adds(float* floats, double* doubles) {
  floats[0] = floats[1] * floats[2] + floats[3];
  doubles[0] = doubles[1] * doubles[2] + doubles[3];
}
