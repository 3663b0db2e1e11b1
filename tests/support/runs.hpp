// Transport partitions in the runs in which they become complete together.
#pragma once

#include <vector>

#include "link/plan.hpp"
#include "support/random.hpp"

namespace partita::test {

/// All of `transports` transport partitions in runs of any length, in any order.
inline std::vector<link::Range> random_runs(Random& random, std::int32_t transports) {
  std::vector<link::Range> runs;
  for (std::int64_t begin = 0; begin < transports; begin = runs.back().end) {
    runs.push_back({begin, random.between(begin + 1, transports)});
  }
  random.shuffle(runs);
  return runs;
}

}  // namespace partita::test
