// NCCL's send and receive beside Partita, found at run time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// A communicator of the two ranks. The library stays loaded.
class Nccl {
 public:
  /// What --nccl asks for; null where that is auto and there is none, or none. Collective.
  static std::shared_ptr<Nccl> find(Job& job);
  virtual ~Nccl() = default;

  /// Sends to, receives from the other rank, in the order of `stream`.
  virtual void send(const std::byte* data, std::size_t size_bytes, cudaStream_t stream) = 0;
  virtual void receive(std::byte* data, std::size_t size_bytes, cudaStream_t stream) = 0;
};

/// Half a round trip between streams; null where there is no NCCL.
std::unique_ptr<Measurement> nccl_ping_pong(Job& job, const Case& c);

/// Microseconds of a message, sent back to back from rank 0; null where there is no NCCL.
std::unique_ptr<Measurement> nccl_stream(Job& job, const Case& c);

}  // namespace partita::bench::gpu
