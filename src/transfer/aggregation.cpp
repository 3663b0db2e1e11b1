#include "transfer/aggregation.hpp"

#include <algorithm>

namespace partita {

std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver,
                                         std::int64_t transfer_bytes) {
  const std::int32_t a = sender.wished_transport_partitions;
  const std::int32_t b = receiver.wished_transport_partitions;
  const std::int64_t wish = a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
  const std::int64_t chosen = wish > 0 ? wish : sender.total_bytes / transfer_bytes;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(chosen, 1, sender.partitions));
}

}  // namespace partita
