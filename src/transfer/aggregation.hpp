// How many transfers a message is moved in.
#pragma once

#include <cstdint>

#include "transfer/setup_messages.hpp"

namespace partita {

/// Partitions of a send that are as large as this on the average leave and arrive alone.
inline constexpr std::int64_t least_lone_bytes = 1024;
/// Smaller ones share transport partitions of up to this size. A flag for each KiB of them made messages of 2 and 4 KiB
/// a tenth slower (docs/measurements/mpich-64-cores, what early partitions cost).
inline constexpr std::int64_t most_shared_bytes = 4096;

/// What can leave, and arrive, alone: the smaller explicit wish of the two sides if there is one, else each partition
/// of the sender or, where they are smaller than `least_lone_bytes`, what takes up to `most_shared_bytes`. Between 1
/// and the sender's partitions.
std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver);

/// In how many transfers all of that travels where it is complete together: each at least `transfer_bytes`, the
/// smallest that is worth its start over the link. Who wishes for a number of transport partitions has each of them
/// travel alone. Between 1 and `transport_partitions`.
std::int32_t choose_transfers(const SideShape& sender, const SideShape& receiver, std::int32_t transport_partitions,
                              std::int64_t transfer_bytes);

}  // namespace partita
