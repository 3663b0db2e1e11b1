#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/pack_kernels.hpp"
#include "memory/grid.hpp"
#include "memory/pack_bodies.cuh"

namespace partita::bench::gpu {

namespace {

__global__ void __launch_bounds__(512) pack_rows(const memory::PackElements arguments) {
  memory::pack_elements(arguments, {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x});
}

/// The largest unit that divides all of these.
partita_u32 unit_of_rows(std::uintptr_t addresses, const Rows& rows) {
  constexpr std::uint64_t largest = 16;
  const std::uint64_t bits = addresses | static_cast<std::uint64_t>(rows.length_bytes) |
                             static_cast<std::uint64_t>(rows.stride_bytes) | largest;
  return static_cast<partita_u32>(bits & -bits);
}

}  // namespace

PackedLayout::PackedLayout(const Rows& rows) : rows_(rows) {
  const memory::PackRun run{0, rows.stride_bytes, static_cast<partita_u64>(rows.length_bytes), 0};
  check(cudaMalloc(&run_, sizeof run), "cudaMalloc");
  check(cudaMemcpy(run_, &run, sizeof run, cudaMemcpyHostToDevice), "cudaMemcpy");
}

PackedLayout::~PackedLayout() {
  cudaFree(run_);
}

void PackedLayout::pack(const std::byte* user, std::byte* packed, cudaStream_t stream) const {
  launch(packed, const_cast<std::byte*>(user), false, stream);
}

void PackedLayout::unpack(const std::byte* packed, std::byte* user, cudaStream_t stream) const {
  launch(const_cast<std::byte*>(packed), user, true, stream);
}

/// As memory::GpuLayout does with the one element of such a datatype.
void PackedLayout::launch(void* packed, void* user, bool unpacks, cudaStream_t stream) const {
  memory::PackElements arguments;
  arguments.packed = packed;
  arguments.user = user;
  arguments.runs = static_cast<const memory::PackRun*>(run_);
  arguments.run_count = 1;
  arguments.unit_bytes =
      unit_of_rows(reinterpret_cast<std::uintptr_t>(packed) | reinterpret_cast<std::uintptr_t>(user), rows_);
  arguments.bytes = arguments.size_bytes = static_cast<partita_u64>(rows_.packed_bytes());
  arguments.extent_bytes = rows_.count * rows_.stride_bytes;
  arguments.unpacks = unpacks ? 1 : 0;
  const memory::Grid grid = memory::grid_for(rows_.packed_bytes());
  pack_rows<<<grid.blocks, grid.threads, 0, stream>>>(arguments);
  check(cudaGetLastError(), "The launch of the kernel that packs");
}

}  // namespace partita::bench::gpu
