// Alltoall with all partners at once.
#include "collective/algorithms.hpp"
#include "collective/exchange.hpp"

namespace partita::collective {
namespace {

Schedule write(const Problem& problem) {
  return exchange(problem, false);
}

}  // namespace

extern const Algorithm linear_alltoall;
const Algorithm linear_alltoall = {
    "linear", {Kind::alltoall, Kind::alltoallv, Kind::alltoallw}, [](const Problem&) { return true; }, write};

}  // namespace partita::collective
