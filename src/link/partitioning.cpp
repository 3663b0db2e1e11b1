#include "link/partitioning.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace partita::link {

Partitioning::Partitioning(std::span<const std::int64_t> sizes_bytes) {
  if (sizes_bytes.empty() || sizes_bytes.size() > most_sizes) {
    throw Error(ErrorClass::count, "there are {} sizes of partitions; expected are 1 to {}", sizes_bytes.size(),
                most_sizes);
  }
  std::vector<std::int64_t> offsets(sizes_bytes.size() + 1);
  for (std::size_t i = 0; i < sizes_bytes.size(); ++i) {
    if (sizes_bytes[i] < 0 || __builtin_add_overflow(offsets[i], sizes_bytes[i], &offsets[i + 1])) {
      throw Error(ErrorClass::count,
                  "partition {} has {} bytes behind {}; expected are 0 or more, and less than 2^63 together", i,
                  sizes_bytes[i], offsets[i]);
    }
  }
  count_ = static_cast<std::int32_t>(sizes_bytes.size());
  total_bytes_ = offsets.back();
  const std::int64_t first = sizes_bytes.front();
  if (std::ranges::all_of(sizes_bytes, [first](std::int64_t size_bytes) { return size_bytes == first; })) {
    partition_bytes_ = first;
  } else {
    offsets_ = std::make_shared<const std::vector<std::int64_t>>(std::move(offsets));
  }
}

std::int64_t Partitioning::partition_at(std::int64_t position) const {
  if (even()) return position / partition_bytes_;
  // The last one that begins at or before it: those before have no bytes, or end there.
  return std::ranges::upper_bound(*offsets_, position) - offsets_->begin() - 1;
}

bool operator==(const Partitioning& a, const Partitioning& b) {
  if (a.count_ != b.count_ || a.total_bytes_ != b.total_bytes_ || a.even() != b.even()) return false;
  return a.even() || *a.offsets_ == *b.offsets_;
}

}  // namespace partita::link
