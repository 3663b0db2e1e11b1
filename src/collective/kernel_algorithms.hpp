// How the collectives whose epochs kernels open move their data.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "collective/problem.hpp"
#include "collective/tuning.hpp"
#include "partita/device/prequest.h"

namespace partita::collective {

struct KernelAlgorithm {
  std::string_view name;  ///< of the info key partita_algorithm
  partita_u32 code;       ///< PARTITA_ALGORITHM_*
  bool in_buffers;        ///< kernels read and write the peers' buffers, which must be mapped
  bool (*serves)(Kind kind);
};

/// Those that move all of an epoch in one call, which rules may name.
std::span<const KernelAlgorithm> kernel_algorithms();

/// The one of this name; or if that is auto, the one of the rule of `tuning`, or else of the built-in tuning. Where
/// there are no bytes, that moves nothing. Throws Error, which lists the names, where none of that name serves
/// `problem`.
const KernelAlgorithm& choose_kernel_algorithm(const Problem& problem, std::int64_t block_bytes, std::string_view name,
                                               const Tuning* tuning = nullptr);

/// The name of those in which marks push, and whoever waits reduces: for programs that mark, so that no rule chooses
/// them. They move nothing in one call.
std::string_view kernel_push_name();

/// The one that needs nothing but its own memory.
const KernelAlgorithm& kernel_packets();

}  // namespace partita::collective
