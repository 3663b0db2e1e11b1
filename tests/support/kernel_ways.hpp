// The collectives that kernels do, each by every algorithm that serves it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace partita::test {

/// `Kind`: an enumeration of collectives that has `allreduce`.
template <class Kind>
using KernelWay = std::tuple<Kind, const char*>;

template <class Kinds>
auto kernel_ways(const Kinds& kinds) {
  using Kind = std::decay_t<decltype(*std::begin(kinds))>;
  std::vector<KernelWay<Kind>> ways;
  for (const Kind kind : kinds) {
    for (const char* const algorithm : {"packets", "buffers"}) ways.emplace_back(kind, algorithm);
    if (kind == Kind::allreduce) ways.emplace_back(kind, "two-shot");
  }
  return ways;
}

template <class Kind>
std::string name_of_way(const testing::TestParamInfo<KernelWay<Kind>>& info) {
  std::string name = std::string(name_of(std::get<0>(info.param))) + "_in_" + std::get<1>(info.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace partita::test
