// The ways to exchange blocks, in the order in which they run; the first is what the others are compared with.
#pragma once

#include <array>
#include <string_view>

namespace fft {

inline constexpr std::array<std::string_view, 3> exchange_names{"alltoall", "alltoallv", "partitioned"};
inline constexpr std::array<std::string_view, 2> decomposition_names{"slab", "pencil"};

}  // namespace fft
