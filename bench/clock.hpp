// The one timer of the harness and how two ranks' timers relate.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>

namespace partita::bench {

/// Nanoseconds of the system's monotonic clock (clock_gettime); one clock for all processes of a host.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// How fine the timer is and what reading it costs, both measured.
struct Timer {
  double resolution_ns = 0;
  double cost_ns = 0;
};
Timer measure_timer();

/// What to add to the peer's times to have them on this rank's clock, and how wrong that may be.
struct ClockOffset {
  std::int64_t peer_to_here_ns = 0;
  double error_ns = 0;
};

/// Exactly zero on one host; else half the fastest of many round trips. Collective over the two ranks of
/// `comm`; only rank 0's result holds an offset.
ClockOffset measure_offset(MPI_Comm comm);

}  // namespace partita::bench
