#include "collective/reduction.hpp"

#include <algorithm>

#include "core/mpi_check.hpp"

namespace partita::collective {

void Reduction::apply(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t unit_bytes) const {
  constexpr std::int64_t most_at_once = 1 << 24;
  for (std::int64_t left = bytes / unit_bytes; left > 0;) {
    const std::int64_t count = std::min(left, most_at_once);
    PARTITA_MPI(Reduce_local(from, to, static_cast<int>(count), datatype_, op_));
    from += count * unit_bytes;
    to += count * unit_bytes;
    left -= count;
  }
}

}  // namespace partita::collective
