// How long a kernel waits for a peer.
#pragma once

#include <cstdint>

namespace jacobi2d::gpu {

/// PARTITA_TIMEOUT (seconds) in nanoseconds if it is set, else a minute: a kernel that waits for ever keeps its GPU
/// from everybody.
std::uint64_t wait_limit_ns();

}  // namespace jacobi2d::gpu
