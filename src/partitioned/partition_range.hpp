// Whether a caller's partitions are the request's.
#pragma once

#include <cstdint>

namespace partita {

/// Throws Error: [first, last] is no ascending range of partitions of a request that has `partitions` of them.
[[noreturn]] void refuse_partitions(std::int64_t first, std::int64_t last, std::int64_t partitions);

/// Throws Error unless [first, last] is such a range. One partition is named as one.
inline void check_partitions(std::int64_t first, std::int64_t last, std::int64_t partitions) {
  if (first < 0 || first > last || last >= partitions) refuse_partitions(first, last, partitions);
}
inline void check_partition(std::int64_t partition, std::int64_t partitions) {
  check_partitions(partition, partition, partitions);
}

}  // namespace partita
