#include "partitioned/aggregation.hpp"

#include <algorithm>
#include <limits>

namespace partita {
namespace {

/// Requests of up to `total_bytes` move in transfers of at least `transfer_bytes`. Measured: docs/measurements/.
struct Row {
  std::int64_t total_bytes;
  std::int64_t transfer_bytes;
};
constexpr Row table[] = {
    {4 * 1024, 4 * 1024},
    {64 * 1024, 4 * 1024},
    {1024 * 1024, 8 * 1024},
    {std::numeric_limits<std::int64_t>::max(), 32 * 1024},
};

std::int64_t by_size(std::int64_t total_bytes) {
  for (const Row& row : table) {
    if (total_bytes <= row.total_bytes) return total_bytes / row.transfer_bytes;
  }
  return 1;
}

}  // namespace

std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver) {
  const std::int32_t a = sender.wished_transport_partitions;
  const std::int32_t b = receiver.wished_transport_partitions;
  const std::int64_t wish = a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
  const std::int64_t chosen = wish > 0 ? wish : by_size(sender.total_bytes);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(chosen, 1, sender.partitions));
}

}  // namespace partita
