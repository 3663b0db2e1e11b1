// Requests on GPU memory for tests: a pair around a ring, and by which way their bytes must travel.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <cstdint>
#include <string>

#include "gpu/gpu_buffer.cuh"
#include "support/told.hpp"

namespace partita::test {

/// The link that this entry forces (PARTITA_LINK), else the one between ranks of a node.
std::string expected_link();
/// Whether kernels of rank `from` store into GPU memory of rank `to` themselves: over link direct, unless the entry
/// gives that to the engine (PARTITA_GPU_COPY) or the two GPUs have no path between them.
bool kernels_reach(int from, int to);

/// Whether the matched `send`, which has a device request, goes over expected_link(), moved by kernels or by the
/// engine, in packets or not.
testing::AssertionResult goes(Partita_Request send, bool by_kernels, bool in_packets);

/// Whether a request between two device-driven sides travels as packets.
inline bool fits_packets(int send_partitions, int recv_partitions, std::int64_t total_bytes) {
  const std::int64_t send_bytes = total_bytes / send_partitions;
  const std::int64_t recv_bytes = total_bytes / recv_partitions;
  const bool small_partitions = send_bytes <= 1024 && recv_bytes <= 1024 && recv_partitions <= 64;
  const bool whole = total_bytes > 0 && send_bytes % 8 == 0 && recv_bytes % 8 == 0;
  return whole && (total_bytes <= 8 * 1024 || (small_partitions && total_bytes <= 32 * 1024));
}

/// A send to the next rank and a receive from the one before, both with a device request.
class RingPair : public Ring {
 protected:
  /// `driver` of both sides: "host" or "device". Without `transport_partitions` the library chooses. Also a check that
  /// the bytes will go as they must.
  void make(const AnyBuffer& out, const AnyBuffer& in, int partitions, const std::string& driver,
            int transport_partitions = 0);
  void free();

  Partita_Request send_ = PARTITA_REQUEST_NULL;
  Partita_Request recv_ = PARTITA_REQUEST_NULL;
  Partita_Prequest device_send_{};
  Partita_Prequest device_recv_{};

 private:
  const bool kernels_reach_next_ =
      kernels_reach(rank(), next());  ///< asked for in front of captures, which take few calls
};

}  // namespace partita::test
