// Alltoall with one partner after the other, each time another one for each rank, so that no link has several messages
// at once.
#include "collective/algorithms.hpp"
#include "collective/exchange.hpp"

namespace partita::collective {
namespace {

Schedule write_pairwise_alltoall(const Problem& problem) {
  return exchange(problem, true);
}

}  // namespace

extern const Algorithm pairwise_alltoall;
const Algorithm pairwise_alltoall = {"pairwise",
                                     {Kind::alltoall, Kind::alltoallv, Kind::alltoallw},
                                     [](const Problem&) { return true; },
                                     write_pairwise_alltoall};

}  // namespace partita::collective
