// The ways to run an iteration, in the order in which they run; the first is what the others are compared with.
#pragma once

#include <array>
#include <string_view>

namespace cg {

/// On the CPU.
inline constexpr std::array<std::string_view, 2> host_modes{"traditional", "queue"};
/// On GPUs.
inline constexpr std::array<std::string_view, 3> gpu_modes{"traditional", "queue", "graph"};

}  // namespace cg
