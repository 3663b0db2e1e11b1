// Stands for cuFFT where there is no GPU: notes its calls. Each plan's work area has as many bytes as the plan has
// numbers.
#include "fake_cufft.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace {
FakeCufft state;
}  // namespace

extern "C" {

FakeCufft* fake_cufft() {
  return &state;
}

int cufftCreate(int* plan) {
  *plan = static_cast<int>(state.plans.size());
  state.plans.emplace_back();
  return 0;
}
int cufftSetAutoAllocation(int plan, int on) {
  FakePlan& of = state.plans.at(static_cast<std::size_t>(plan));
  of.allocates = on != 0 || of.made;  // too late
  return 0;
}
int cufftMakePlanMany64(int plan, int rank, long long* n, long long* /*inembed*/, long long /*istride*/,
                        long long /*idist*/, long long* /*onembed*/, long long /*ostride*/, long long /*odist*/,
                        int /*type*/, long long batch, std::size_t* work_bytes) {
  FakePlan& of = state.plans.at(static_cast<std::size_t>(plan));
  of.made = true;
  of.work_bytes = static_cast<std::size_t>(batch);
  for (int axis = 0; axis < rank; ++axis) of.work_bytes *= static_cast<std::size_t>(n[axis]);
  *work_bytes = of.work_bytes;
  return 0;
}
int cufftSetWorkArea(int plan, void* area) {
  state.plans.at(static_cast<std::size_t>(plan)).area = area;
  return 0;
}
int cufftSetStream(int /*plan*/, cudaStream_t /*stream*/) {
  return 0;
}
int cufftExecZ2Z(int plan, double2* /*from*/, double2* /*to*/, int /*direction*/) {
  ++state.plans.at(static_cast<std::size_t>(plan)).transforms;
  return 0;
}
int cufftDestroy(int /*plan*/) {
  ++state.destroyed;
  return 0;
}

}  // extern "C"
