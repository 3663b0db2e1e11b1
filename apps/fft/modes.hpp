// The ways to exchange blocks, in the order in which they run; what has no staged twin is compared with the first.
#pragma once

#include <array>
#include <string_view>

namespace fft {

inline constexpr std::array<std::string_view, 3> exchange_names{"alltoall", "alltoallv", "partitioned"};
/// Behind the name of an exchange: the same one without peer memory. GPU memory goes through host memory, or by the MPI
/// where that is left it.
inline constexpr std::string_view staged_suffix = "-staged";
inline constexpr std::array<std::string_view, 2> decomposition_names{"slab", "pencil"};

constexpr bool is_staged(std::string_view exchange) {
  return exchange.ends_with(staged_suffix);
}
/// The name without the suffix.
constexpr std::string_view plain_name(std::string_view exchange) {
  return is_staged(exchange) ? exchange.substr(0, exchange.size() - staged_suffix.size()) : exchange;
}

}  // namespace fft
