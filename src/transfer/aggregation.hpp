// How many transfers a request is moved in.
#pragma once

#include <cstdint>

#include "transfer/setup_messages.hpp"

namespace partita {

/// The transport partitions of a matched request: the smaller explicit wish of the two sides if there is one, else as
/// many as give transfers of `transfer_bytes` (see Link). Between 1 and the sender's partitions.
std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver,
                                         std::int64_t transfer_bytes);

}  // namespace partita
