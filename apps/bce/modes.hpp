// The ways to sum the gradient over the ranks.
#pragma once

#include <array>
#include <string_view>

namespace bce {

/// Of the samples in host memory.
enum class Way { allreduce, nonblocking, partitioned };

struct Mode {
  std::string_view name;
  Way way;
};

inline constexpr std::array modes{
    Mode{"allreduce", Way::allreduce},
    Mode{"nonblocking", Way::nonblocking},
    Mode{"partitioned", Way::partitioned},
};

/// Of those in GPU memory (gpu/summing.hpp). In the order in which they run; the first is what the others are compared
/// with.
inline constexpr std::array<std::string_view, 5> gpu_mode_names{"traditional", "schedule", "in-kernel", "resident",
                                                                "nccl"};

}  // namespace bce
