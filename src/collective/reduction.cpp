#include "collective/reduction.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "collective/small_float.hpp"
#include "core/mpi_check.hpp"

namespace partita::collective {
namespace {

/// The MPI does not know these numbers: each result is that of a float, rounded. Operands may lie anywhere.
template <class Format, class Operation>
void apply_to_each(const std::byte* from, std::byte* to, std::int64_t bytes, Operation operation) {
  std::uint16_t a = 0;
  std::uint16_t b = 0;
  for (std::int64_t at = 0; at < bytes; at += std::int64_t{sizeof a}) {
    std::memcpy(&a, from + at, sizeof a);
    std::memcpy(&b, to + at, sizeof b);
    b = Format::bits(operation(Format::value(a), Format::value(b)));
    std::memcpy(to + at, &b, sizeof b);
  }
}

template <class Format>
void apply_predefined(MPI_Op op, const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (op == MPI_SUM) return apply_to_each<Format>(from, to, bytes, std::plus<float>());
  if (op == MPI_PROD) return apply_to_each<Format>(from, to, bytes, std::multiplies<float>());
  if (op == MPI_MAX) return apply_to_each<Format>(from, to, bytes, greater_of);
  if (op == MPI_MIN) return apply_to_each<Format>(from, to, bytes, lesser_of);
  throw Error(ErrorClass::internal, "a reduction of 16-bit numbers has an operation that is not theirs");
}

}  // namespace

void Reduction::apply(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t unit_bytes) const {
  if (format_ == SmallFloat::float16) return apply_predefined<Float16>(op_, from, to, bytes);
  if (format_ == SmallFloat::bfloat16) return apply_predefined<BFloat16>(op_, from, to, bytes);
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
