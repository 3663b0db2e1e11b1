#include "partitioned/partition_range.hpp"

#include "core/error.hpp"

namespace partita {

void refuse_partitions(std::int64_t first, std::int64_t last, std::int64_t partitions) {
  if (first == last) {
    throw Error(ErrorClass::arg, "argument partition is {}; expected is 0 to {}", first, partitions - 1);
  }
  throw Error(ErrorClass::arg, "the range of partitions is {} to {}; expected is an ascending one within 0 to {}",
              first, last, partitions - 1);
}

}  // namespace partita
