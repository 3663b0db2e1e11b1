#include "transfer/pieces.hpp"

#include <algorithm>
#include <vector>

namespace partita {
namespace {

constexpr std::int64_t least_piece_bytes = 1024 * 1024;
constexpr std::int64_t most_pieces = 64;
/// Where a partition is cut, counted from its begin: copies are fastest between such places.
constexpr std::int64_t alignment = 4096;

/// Each partition in `cuts` pieces of one size; the last ones may be shorter, or empty.
link::Partitioning cut(const link::Partitioning& partitioning, std::int64_t cuts) {
  std::vector<std::int64_t> sizes_bytes;
  sizes_bytes.reserve(static_cast<std::size_t>(partitioning.count() * cuts));
  for (std::int64_t p = 0; p < partitioning.count(); ++p) {
    std::int64_t left = partitioning.bytes({p, p + 1}).size();
    const std::int64_t each = ((left - 1) / (cuts * alignment) + 1) * alignment;
    for (std::int64_t piece = 0; piece < cuts; ++piece) {
      sizes_bytes.push_back(std::min(left, each));
      left -= sizes_bytes.back();
    }
  }
  return link::Partitioning(sizes_bytes);
}

}  // namespace

link::Plan cut_for_staging(const link::Plan& plan) {
  const std::int64_t sends = plan.send_partitions();
  const std::int64_t transports = plan.transport_partitions();
  const std::int64_t wanted = std::min(plan.total_bytes() / least_piece_bytes, most_pieces);
  if (wanted <= transports) return plan;
  // As many runs of send partitions of each transport partition, whose boundaries then stay boundaries; or as many
  // pieces of each send partition.
  if (wanted <= sends) {
    return {plan.send(), plan.recv(), static_cast<std::int32_t>(transports * (wanted / transports))};
  }
  const std::int64_t cuts = wanted / sends;
  return {cut(plan.send(), cuts), plan.recv(), static_cast<std::int32_t>(sends * cuts)};
}

Pieces::Pieces(const link::Plan& plan, const link::Plan& wire)
    : plan_(plan), wire_(wire), cuts_(wire.send_partitions() / plan.send_partitions()) {}

link::Range Pieces::of(link::Range transports) const {
  if (transports.size() == 0) return {};
  const std::int64_t begin = plan_.send_run(transports.begin).begin * cuts_;
  const std::int64_t end = plan_.send_run(transports.end - 1).end * cuts_;
  return {wire_.transport_of_send(begin), wire_.transport_of_send(end - 1) + std::int64_t{1}};
}

link::Range Pieces::first_of(link::Range pieces, std::int64_t size_bytes) const {
  link::Range first{pieces.begin, pieces.begin + 1};
  while (first.end < pieces.end && bytes(first).size() < size_bytes) ++first.end;
  return first;
}

}  // namespace partita
