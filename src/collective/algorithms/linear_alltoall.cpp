// Alltoall with all partners at once.
#include "collective/algorithms.hpp"
#include "collective/exchange.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_alltoall(const Problem& problem) {
  return exchange(problem, false);
}

}  // namespace

extern const Algorithm linear_alltoall;
const Algorithm linear_alltoall = {"linear",
                                   {Kind::alltoall, Kind::alltoallv, Kind::alltoallw},
                                   [](const Problem&) { return true; },
                                   write_linear_alltoall};

}  // namespace partita::collective
