// Gather from each rank to the root: one step, and every block lands in its place.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_gather(const Problem& problem) {
  Writer writer;
  const int marked = problem.sent.empty() ? Writer::nothing : writer.mark();
  if (problem.rank != problem.root) {
    writer.send(problem.root, problem.sent_block(), {marked});
    return std::move(writer).finished();
  }
  for (int source = 0; source < problem.size; ++source) {
    if (source != problem.rank) {
      writer.receive(source, problem.received_block(source));
    } else if (!problem.in_place) {
      writer.copy(problem.sent_block(), problem.received_block(source), {marked});
    }
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_gather;
const Algorithm linear_gather = {
    "linear", {Kind::gather, Kind::gatherv}, [](const Problem&) { return true; }, write_linear_gather};

}  // namespace partita::collective
