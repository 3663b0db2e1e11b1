#include "transfer/aggregation.hpp"

#include <algorithm>

namespace partita {
namespace {

/// 0: neither side has one.
std::int64_t wish_of(const SideShape& sender, const SideShape& receiver) {
  const std::int32_t a = sender.wished_transport_partitions;
  const std::int32_t b = receiver.wished_transport_partitions;
  return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

std::int32_t between_1_and(std::int64_t most, std::int64_t number) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(number, 1, most));
}

}  // namespace

std::int32_t choose_transport_partitions(const SideShape& sender, const SideShape& receiver) {
  const std::int64_t wish = wish_of(sender, receiver);
  if (wish > 0) return between_1_and(sender.partitions(), wish);
  if (sender.total_bytes() / sender.partitions() >= least_lone_bytes) return sender.partitions();
  return between_1_and(sender.partitions(), (sender.total_bytes() + most_shared_bytes - 1) / most_shared_bytes);
}

std::int32_t choose_transfers(const SideShape& sender, const SideShape& receiver, std::int32_t transport_partitions,
                              std::int64_t transfer_bytes) {
  if (wish_of(sender, receiver) > 0) return transport_partitions;
  return between_1_and(transport_partitions, sender.total_bytes() / transfer_bytes);
}

}  // namespace partita
