// NCCL's send and receive beside Partita, found at run time.
#pragma once

#include <memory>

#include "apps/support/nccl.hpp"
#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// A communicator of the job's ranks in the library that --nccl asks for; null where that is none, or auto and there is
/// none or ranks share a GPU, which NCCL refuses. The job tells its version. Collective.
std::shared_ptr<apps::Nccl> find_nccl(Job& job);

/// Half a round trip between streams; null where there is no NCCL.
std::unique_ptr<Measurement> nccl_ping_pong(Job& job, const Case& c);

/// Microseconds of a message, sent back to back from rank 0; null where there is no NCCL.
std::unique_ptr<Measurement> nccl_stream(Job& job, const Case& c);

/// Microseconds in which rank 0's host puts a send into a stream, a group of one; null where there is no NCCL.
std::unique_ptr<Measurement> nccl_send_call(Job& job, const Case& c);

}  // namespace partita::bench::gpu
