// Scatter from the root to each rank: one step.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_scatter(const Problem& problem) {
  Writer writer;
  if (problem.rank != problem.root) {
    writer.receive(problem.root, problem.received_block());
    return std::move(writer).finished();
  }
  const int marked = writer.mark();
  for (int step = 1; step < problem.size; ++step) {
    const int to = (problem.root + step) % problem.size;
    writer.send(to, problem.sent_block(to), {marked});
  }
  if (!problem.in_place) writer.copy(problem.sent_block(problem.rank), problem.received_block(), {marked});
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_scatter;
const Algorithm linear_scatter = {
    "linear", {Kind::scatter, Kind::scatterv}, [](const Problem&) { return true; }, write_linear_scatter};

}  // namespace partita::collective
