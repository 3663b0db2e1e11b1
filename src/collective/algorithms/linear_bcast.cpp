// Broadcast from the root to each rank: one step.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_bcast(const Problem& problem) {
  Writer writer;
  if (problem.rank != problem.root) {
    writer.receive(problem.root, problem.received_block());
    return std::move(writer).finished();
  }
  const int marked = writer.mark();
  for (int step = 1; step < problem.size; ++step) {
    writer.send((problem.root + step) % problem.size, problem.sent_block(), {marked});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_bcast;
const Algorithm linear_bcast = {"linear", {Kind::bcast}, [](const Problem&) { return true; }, write_linear_bcast};

}  // namespace partita::collective
