// The neighbourhood collectives: to and from each neighbour, one step.
#include "collective/algorithms.hpp"
#include "core/error.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_neighbors(const Problem& problem) {
  Writer writer;
  const bool is_gather = problem.kind == Kind::neighbor_allgather || problem.kind == Kind::neighbor_allgatherv;
  const int marked = problem.sent.empty() ? Writer::nothing : writer.mark();
  const auto block_for = [&](int place) { return problem.sent_block(is_gather ? 0 : place); };
  std::vector<int> to_itself;
  for (int i = 0; i < std::ssize(problem.destinations); ++i) {
    // What goes to the lower neighbour arrives there as its upper one's, so where both are one rank, the upper one's
    // block goes first, as the lower one's is received first.
    const int place = problem.cartesian ? i ^ 1 : i;
    const int to = problem.destinations[static_cast<std::size_t>(place)];
    if (to == problem.rank) to_itself.push_back(place);
    if (to >= 0 && to != problem.rank) writer.send(to, block_for(place), {marked});
  }
  std::size_t met = 0;
  for (int place = 0; place < std::ssize(problem.sources); ++place) {
    const int from = problem.sources[static_cast<std::size_t>(place)];
    if (from == problem.rank) {
      if (met == to_itself.size()) {
        throw Error(ErrorClass::topology,
                    "the topology of argument comm names rank {} among its own sources, but not as often among its own "
                    "destinations",
                    problem.rank);
      }
      writer.copy(block_for(to_itself[met++]), problem.received_block(place), {marked});
    } else if (from >= 0) {
      writer.receive(from, problem.received_block(place));
    }
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_neighbors;
const Algorithm linear_neighbors = {"linear",
                                    {Kind::neighbor_allgather, Kind::neighbor_allgatherv, Kind::neighbor_alltoall,
                                     Kind::neighbor_alltoallv, Kind::neighbor_alltoallw},
                                    [](const Problem&) { return true; },
                                    write_linear_neighbors};

}  // namespace partita::collective
