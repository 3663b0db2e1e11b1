// How the collectives whose epochs kernels open move their data.
#pragma once

#include <cstdint>
#include <string_view>

#include "collective/problem.hpp"
#include "partita/device/prequest.h"

namespace partita::collective {

struct KernelAlgorithm {
  std::string_view name;  ///< of the info key partita_algorithm
  partita_u32 code;       ///< PARTITA_ALGORITHM_*
  bool in_buffers;        ///< kernels read and write the peers' buffers, which must be mapped
  bool (*serves)(const Problem& problem);
  /// Whether it is taken before those behind it in the table, where the program has not chosen. A pure function of what
  /// all ranks know alike; there are `block_bytes`, more than 0, and it serves `problem`.
  bool (*is_best)(const Problem& problem, std::int64_t block_bytes);
};

/// The best for `problem`, or the one of this name. Where there are no bytes, that moves nothing. Throws Error, which
/// lists the names, where none of that name serves it.
const KernelAlgorithm& choose_kernel_algorithm(const Problem& problem, std::int64_t block_bytes, std::string_view name);

/// The one that needs nothing but its own memory.
const KernelAlgorithm& kernel_packets();

}  // namespace partita::collective
