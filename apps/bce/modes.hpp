// The ways to sum the gradient over the ranks.
#pragma once

#include <array>
#include <string_view>

namespace bce {

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

}  // namespace bce
