// Places in GPU memory, with gaps or without.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/gpu_layout.hpp"

namespace partita::collective {

struct Spot {
  std::byte* address = nullptr;               ///< of the first byte, or of the first element
  const memory::GpuLayout* layout = nullptr;  ///< null: the bytes lie in a row
};

/// Bytes that are to be copied, counted without gaps: whole elements, where there are some.
struct Move {
  Spot to;
  Spot from;
  std::int64_t bytes;
};

}  // namespace partita::collective
