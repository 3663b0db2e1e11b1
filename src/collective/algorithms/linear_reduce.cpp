// Reduce on the root, to which each rank sends its share: one step. The root adds in the order of the ranks.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_reduce(const Problem& problem) {
  Writer writer;
  const Share own = {problem.sent_block(), writer.mark(), true};
  if (problem.rank != problem.root) {
    writer.send(problem.root, own.region, {own.there});
    return std::move(writer).finished();
  }
  Share sum;
  for (int source = 0; source < problem.size; ++source) {
    Share share = own;
    if (source != problem.rank) {
      const Region slot = writer.slot(problem.sent[0]);
      share = {slot, writer.receive(source, slot)};
    }
    sum = source == 0 ? share : combined(writer, problem, sum, share);
  }
  deliver(writer, problem, sum);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_reduce;
const Algorithm linear_reduce = {"linear", {Kind::reduce}, [](const Problem&) { return true; }, write_linear_reduce};

}  // namespace partita::collective
