// How long a kernel waits for a peer.
#pragma once

#include <cstdint>

namespace partita::apps {

/// PARTITA_TIMEOUT (seconds) in nanoseconds if it is set, else a minute: a kernel that waits for ever keeps its GPU
/// from everybody.
std::uint64_t wait_limit_ns();

}  // namespace partita::apps
