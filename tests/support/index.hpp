// Numbers of things as places of a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace partita::test {

inline std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace partita::test
