// How many transfers a request is moved in.
#pragma once

#include <cstdint>

#include "transfer/setup_messages.hpp"

namespace partita {

/// Smaller partitions of a send share a transport partition of this size: a flag each would cost more than it brings.
inline constexpr std::int64_t least_transport_bytes = 1024;

/// What can leave, and arrive, alone: the smaller explicit wish of the two sides if there is one, else each partition
/// of the sender of at least `least_transport_bytes`. Between 1 and the sender's partitions.
std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver);

/// In how many transfers all of that travels where it is complete together: each at least `transfer_bytes`, the
/// smallest that is worth its start over the link. Who wishes for a number of transport partitions has each of them
/// travel alone. Between 1 and `transport_partitions`.
std::int32_t choose_transfers(const SideShape& sender, const SideShape& receiver, std::int32_t transport_partitions,
                              std::int64_t transfer_bytes);

}  // namespace partita
