// Ping-pongs inside kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/gpu/kernel_report.hpp"

namespace partita::bench::gpu {

/// The first ping-pong of a round is not timed: it shows both kernels that the other one runs.
inline constexpr int untimed_ping_pongs = 1;

/// Pairs of one-partition requests: ping-pong i takes pair i, so that no receive is opened in between.
inline constexpr int most_lanes = 32;
struct Lanes {
  MPIX_Prequest send[most_lanes];
  MPIX_Prequest recv[most_lanes];
};

struct PingPongShape {
  int ping_pongs;  ///< in a round, the untimed ones included
  int rounds;
  int threads;
  bool first;  ///< this rank sends first
};

/// Device-driven: `rounds` times, the kernel opens an epoch of every lane and then plays one ping-pong on each. Reports
/// the time of the timed ping-pongs, and that of everything.
void launch_lane_ping_pong(const Lanes& lanes, const PingPongShape& shape, KernelReport* report, cudaStream_t stream);

/// The same on the first lane alone, with one ping-pong a round: MPIX_Pnext ends an epoch of the send and opens the
/// next one. Reports the time of everything.
void launch_epoch_ping_pong(const Lanes& lanes, const PingPongShape& shape, KernelReport* report, cudaStream_t stream);

/// One round on one pair of requests, ping-pong i on partition i. `marks_each`: send partitions that make one of the
/// receiver's; all but the last of them are marked beforehand. Where the requests are device-driven, the kernel opens
/// and completes the epochs of all rounds.
void launch_partition_ping_pong(const MPIX_Prequest& send, const MPIX_Prequest& recv, int marks_each,
                                const PingPongShape& shape, KernelReport* report, cudaStream_t stream);

}  // namespace partita::bench::gpu
