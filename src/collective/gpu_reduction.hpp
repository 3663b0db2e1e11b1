// The ⊕ of a reduction in GPU memory.
#pragma once

#include <cstdint>

#include "collective/reduction.hpp"
#include "memory/kernels.hpp"

namespace partita::collective {

/// As a kernel of the library's makes it.
struct GpuReduction {
  memory::Element element{};
  memory::Combine by{};
  std::int64_t element_bytes = 1;
};

/// The reduction exists, and its operation goes with its datatype. Throws Error where no kernel reduces so: an
/// operation of the program's, numbers that GPUs do not have, pairs with a gap.
GpuReduction gpu_reduction(const Reduction& reduction);

}  // namespace partita::collective
