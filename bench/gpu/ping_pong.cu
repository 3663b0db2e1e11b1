#include <partita/device.cuh>

#include "bench/gpu/cuda_check.hpp"
#include "bench/gpu/gpu_clock.cuh"
#include "bench/gpu/ping_pong.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int most_lane_threads = 512;

/// Times of thread 0, in shared memory: in registers, each thread would carry them through every call.
struct Stopwatch {
  std::uint64_t begin_ns;
  std::uint64_t round_begin_ns;
  std::uint64_t measured_ns;

  __device__ void begin() {
    if (threadIdx.x == 0) *this = {gpu_now_ns(), 0, 0};
  }
  __device__ void begin_round() {
    if (threadIdx.x == 0) round_begin_ns = gpu_now_ns();
  }
  __device__ void end_round() {
    if (threadIdx.x == 0) measured_ns += gpu_now_ns() - round_begin_ns;
  }
  __device__ void report(KernelReport* to, int code) const {
    if (threadIdx.x != 0) return;
    to->measured_ns = measured_ns;
    to->whole_ns = gpu_now_ns() - begin_ns;
    to->error = code;
  }
};

__device__ int open_lanes(const Lanes& lanes, int count) {
  for (int lane = 0; lane < count; ++lane) {
    if (const int code = MPIX_Pstart(lanes.recv[lane])) return code;
  }
  for (int lane = 0; lane < count; ++lane) {
    if (const int code = MPIX_Pstart(lanes.send[lane])) return code;
    if (const int code = MPIX_Pbuf_prepare(lanes.send[lane])) return code;
  }
  return 0;
}

__device__ int play_message(const MPIX_Prequest& send, const MPIX_Prequest& recv, bool first) {
  if (!first) {
    if (const int code = MPIX_Pwait(recv)) return code;
  }
  if (const int code = MPIX_Pready_block(0, send)) return code;
  return first ? MPIX_Pwait(recv) : 0;
}

__device__ int play_lanes(const Lanes& lanes, const PingPongShape& shape, Stopwatch& watch) {
  if (const int code = open_lanes(lanes, shape.ping_pongs)) return code;
  for (int i = 0; i < shape.ping_pongs; ++i) {
    if (i == untimed_ping_pongs) watch.begin_round();
    if (const int code = play_message(lanes.send[i], lanes.recv[i], shape.first)) return code;
  }
  if (shape.ping_pongs > untimed_ping_pongs) watch.end_round();
  for (int i = 0; i < shape.ping_pongs; ++i) {
    if (const int code = MPIX_Pwait(lanes.send[i])) return code;
  }
  return 0;
}

__global__ void __launch_bounds__(most_lane_threads, 1)
    lane_ping_pong(const __grid_constant__ Lanes lanes, PingPongShape shape, KernelReport* report) {
  __shared__ Stopwatch watch;
  watch.begin();
  int code = 0;
  for (int round = 0; round < shape.rounds && code == 0; ++round) code = play_lanes(lanes, shape, watch);
  watch.report(report, code);
}

__device__ int open_epoch(const MPIX_Prequest& send, const MPIX_Prequest& recv) {
  if (const int code = MPIX_Pstart(recv)) return code;
  if (const int code = MPIX_Pstart(send)) return code;
  return MPIX_Pbuf_prepare(send);
}

/// One pair, an epoch a ping-pong; one call of the send ends an epoch and opens the next.
__device__ int play_epochs(const MPIX_Prequest& send, const MPIX_Prequest& recv, const PingPongShape& shape) {
  if (const int code = open_epoch(send, recv)) return code;
  for (int left = shape.rounds; left > 0; --left) {
    if (const int code = play_message(send, recv, shape.first)) return code;
    if (left == 1) break;
    // The peer's MPIX_Pnext waits for it.
    if (const int code = MPIX_Pstart(recv)) return code;
    if (const int code = MPIX_Pnext(send)) return code;
  }
  return MPIX_Pwait(send);
}

__global__ void __launch_bounds__(most_lane_threads, 1)
    epoch_ping_pong(const __grid_constant__ MPIX_Prequest send, const __grid_constant__ MPIX_Prequest recv,
                    PingPongShape shape, KernelReport* report) {
  __shared__ Stopwatch watch;
  watch.begin();
  watch.report(report, play_epochs(send, recv, shape));
}

__device__ int complete_epoch(const MPIX_Prequest& send, const MPIX_Prequest& recv) {
  if (const int code = MPIX_Pwait(recv)) return code;
  return MPIX_Pwait(send);
}

/// All but the last of the marks that make each of the receiver's partitions.
__device__ int mark_ahead(const MPIX_Prequest& send, int marks_each, int ping_pongs) {
  for (int i = 0; i < ping_pongs; ++i) {
    for (int mark = 0; mark + 1 < marks_each; ++mark) {
      if (const int code = MPIX_Pready_block(i * marks_each + mark, send)) return code;
    }
  }
  return 0;
}

__device__ int play_partition(const MPIX_Prequest& send, const MPIX_Prequest& recv, int marks_each, int i, bool first) {
  if (!first) {
    if (const int code = MPIX_Pwait_partition(i, recv)) return code;
  }
  if (const int code = MPIX_Pready_block((i + 1) * marks_each - 1, send)) return code;
  return first ? MPIX_Pwait_partition(i, recv) : 0;
}

__device__ int play_partitions(const MPIX_Prequest& send, const MPIX_Prequest& recv, int marks_each,
                               const PingPongShape& shape, Stopwatch& watch) {
  if (const int code = mark_ahead(send, marks_each, shape.ping_pongs)) return code;
  for (int i = 0; i < shape.ping_pongs; ++i) {
    if (i == untimed_ping_pongs) watch.begin_round();
    if (const int code = play_partition(send, recv, marks_each, i, shape.first)) return code;
  }
  if (shape.ping_pongs > untimed_ping_pongs) watch.end_round();
  return 0;
}

/// More than are launched: the compiler takes what registers the bound leaves, and needs fewer.
constexpr int bound_of_partition_threads = 640;
static_assert(bound_of_partition_threads >= most_lane_threads);

__global__ void __launch_bounds__(bound_of_partition_threads)
    partition_ping_pong(const __grid_constant__ MPIX_Prequest send, const __grid_constant__ MPIX_Prequest recv,
                        int marks_each, PingPongShape shape, KernelReport* report) {
  const bool device_driven = (send.flags & PARTITA_PREQUEST_DEVICE_DRIVEN) != 0;
  __shared__ Stopwatch watch;
  watch.begin();
  int code = 0;
  for (int round = 0; round < shape.rounds && code == 0; ++round) {
    if (device_driven) code = open_epoch(send, recv);
    if (code == 0) code = play_partitions(send, recv, marks_each, shape, watch);
    if (device_driven && code == 0) code = complete_epoch(send, recv);
  }
  watch.report(report, code);
}

}  // namespace

void launch_lane_ping_pong(const Lanes& lanes, const PingPongShape& shape, KernelReport* report, cudaStream_t stream) {
  lane_ping_pong<<<1, shape.threads, 0, stream>>>(lanes, shape, report);
  check(cudaGetLastError(), "The launch of the ping-pong kernel");
}

void launch_epoch_ping_pong(const Lanes& lanes, const PingPongShape& shape, KernelReport* report, cudaStream_t stream) {
  epoch_ping_pong<<<1, shape.threads, 0, stream>>>(lanes.send[0], lanes.recv[0], shape, report);
  check(cudaGetLastError(), "The launch of the ping-pong kernel");
}

void launch_partition_ping_pong(const MPIX_Prequest& send, const MPIX_Prequest& recv, int marks_each,
                                const PingPongShape& shape, KernelReport* report, cudaStream_t stream) {
  partition_ping_pong<<<1, shape.threads, 0, stream>>>(send, recv, marks_each, shape, report);
  check(cudaGetLastError(), "The launch of the ping-pong kernel");
}

}  // namespace partita::bench::gpu
