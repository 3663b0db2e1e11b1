#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/kernel_collectives.hpp"

namespace partita::bench::gpu {

namespace {

template <Collective kind>
__device__ int do_collective(const MPIX_Prequest& prequest) {
  if constexpr (kind == Collective::allreduce) return MPIX_Pallreduce(prequest);
  if constexpr (kind == Collective::allgather) return MPIX_Pallgather(prequest);
  if constexpr (kind == Collective::reduce_scatter) return MPIX_Preduce_scatter(prequest);
  if constexpr (kind == Collective::alltoall) return MPIX_Palltoall(prequest);
  if constexpr (kind == Collective::bcast) return MPIX_Pbcast(prequest);
}

template <Collective kind>
__global__ void __launch_bounds__(most_collective_threads, 1)
    collectives(const __grid_constant__ MPIX_Prequest prequest, int count, KernelReport* report) {
  const std::uint64_t begin_ns = gpu_now_ns();
  std::uint64_t timed_begin_ns = begin_ns;
  int code = 0;
  for (int i = 0; i < count && code == 0; ++i) {
    if (i == untimed_collectives) timed_begin_ns = gpu_now_ns();
    code = do_collective<kind>(prequest);
  }
  const std::uint64_t end_ns = gpu_now_ns();
  if (threadIdx.x != 0) return;
  if (code != 0) report->error = code;
  if (blockIdx.x != 0) return;
  report->measured_ns = end_ns - timed_begin_ns;
  report->whole_ns = end_ns - begin_ns;
}

using Kernel = void (*)(MPIX_Prequest, int, KernelReport*);

Kernel kernel_of(Collective kind) {
  switch (kind) {
    case Collective::allreduce:
      return collectives<Collective::allreduce>;
    case Collective::allgather:
      return collectives<Collective::allgather>;
    case Collective::reduce_scatter:
      return collectives<Collective::reduce_scatter>;
    case Collective::alltoall:
      return collectives<Collective::alltoall>;
    default:
      return collectives<Collective::bcast>;
  }
}

/// The same units in the same slots as the library's packets. A slot of a parity is stored again when its owner has
/// answered the flag in between, which it does behind its own look at the slot.
template <int others>
__global__ void __launch_bounds__(most_collective_threads, 1)
    bare_packets(const __grid_constant__ MPIX_Prequest request, BareRun run, KernelReport* report) {
  using namespace device;
  const partita_u64 offset = threadIdx.x * unit_size_bytes;
  const bool has_unit = offset < block_bytes(request);
  const partita_u32 bytes = has_unit ? bytes_of_unit(block_bytes(request) - offset) : 0;
  const partita_u64 slot = lines_bytes(request.strips) + threadIdx.x / most_share_units * slots_of_strip_bytes() +
                           threadIdx.x % most_share_units * area_slot_bytes;
  unsigned char* to[others];
  partita_u32 from[others];  // behind the first area: seven addresses more would not have registers
#pragma unroll
  for (int n = 0; n < others; ++n) {
    to[n] = area_at(request, rank_behind(request, n + 1)) + slot;
    from[n] = static_cast<partita_u32>(area_of(request, rank_behind(request, n + 1)) - request.remote + slot);
  }
  Patience patience(request);
  const std::uint64_t begin_ns = gpu_now_ns();
  std::uint64_t timed_begin_ns = begin_ns;
  int code = 0;
  for (int i = 0; i < run.exchanges && code == 0; ++i) {
    if (i == untimed_collectives) timed_begin_ns = gpu_now_ns();
    if (!has_unit) continue;
    const Epoch flag = run.first_flag + static_cast<Epoch>(i);
    const partita_u64 set = (flag & 1) * most_share_units * area_slot_bytes;
    const Unit own = load_unit(request.sent + offset, bytes);
#pragma unroll
    for (int n = 0; n < others; ++n) send_unit(to[n] + set, own, flag);
    PacketWords words[others][2];
    for (partita_u32 missing = 1; missing != 0 && code == 0;) {
#pragma unroll
      for (int n = 0; n < others; ++n) {
        const unsigned char* const packets = request.remote + from[n] + set;
        words[n][0] = load_packet(packets);
        words[n][1] = load_packet(packets + packet_bytes);
      }
      missing = 0;
#pragma unroll
      for (int n = 0; n < others; ++n) missing |= differs(words[n], flag);
      if (missing != 0) code = patience.look();
    }
    Held sum{own, {}};
#pragma unroll
    for (int n = 0; n < others; ++n) sum = reduction::fold<partita_u32>(sum, unit_of(words[n]), reduction::Sum());
    store_unit(request.buffer + offset, sum.first, bytes);
  }
  if (code != 0) report->error = code;
  __syncthreads();  // the last unit is there
  const std::uint64_t end_ns = gpu_now_ns();
  if (threadIdx.x != 0) return;
  report->measured_ns = end_ns - timed_begin_ns;
  report->whole_ns = end_ns - begin_ns;
}

using BareKernel = void (*)(MPIX_Prequest, BareRun, KernelReport*);

BareKernel bare_kernel_among(int ranks) {
  constexpr BareKernel kernels[] = {bare_packets<1>, bare_packets<2>, bare_packets<3>, bare_packets<4>,
                                    bare_packets<5>, bare_packets<6>, bare_packets<7>};
  return kernels[ranks - 2];
}

}  // namespace

void launch_bare_packets(const MPIX_Prequest& prequest, const BareRun& run, KernelReport* report, cudaStream_t stream) {
  const auto units = static_cast<unsigned>((prequest.total_bytes + 15) / 16);
  bare_kernel_among(prequest.ranks)<<<1, (units + 31) / 32 * 32, 0, stream>>>(prequest, run, report);
  check(cudaGetLastError(), "The launch of the exchange of packets");
}

void launch_collectives(const MPIX_Prequest& prequest, const CollectiveRun& run, KernelReport* report,
                        cudaStream_t stream) {
  MPIX_Prequest argument = prequest;
  int count = run.collectives;
  void* arguments[] = {&argument, &count, &report};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel_of(run.kind)),
                                    dim3(static_cast<unsigned>(run.blocks)), dim3(static_cast<unsigned>(run.threads)),
                                    arguments, 0, stream),
        "The launch of the collectives' kernel");
}

int most_collective_blocks(Collective kind, int threads) {
  int device = 0;
  int multiprocessors = 0;
  int blocks_each = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, reinterpret_cast<const void*>(kernel_of(kind)),
                                                      threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return multiprocessors * blocks_each;
}

}  // namespace partita::bench::gpu
