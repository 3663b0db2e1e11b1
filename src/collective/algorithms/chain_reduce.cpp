// Reduce from rank to rank, from both ends to the root: with many partitions each link is busy all the time. ⊕ need not
// commute.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_chain_reduce(const Problem& problem) {
  Writer writer;
  Share sum = {problem.sent_block(), writer.mark(), true};
  const auto received_from = [&](int peer) {
    const Region slot = writer.slot(problem.sent[0]);
    return Share{slot, writer.receive(peer, slot)};
  };
  if (problem.rank >= problem.root && problem.rank + 1 < problem.size) {
    sum = combined(writer, problem, sum, received_from(problem.rank + 1));
  }
  if (problem.rank <= problem.root && problem.rank > 0) {
    sum = combined(writer, problem, received_from(problem.rank - 1), sum);
  }
  if (problem.rank != problem.root) {
    writer.send(problem.rank < problem.root ? problem.rank + 1 : problem.rank - 1, sum.region, {sum.there});
    return std::move(writer).finished();
  }
  deliver(writer, problem, sum);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm chain_reduce;
const Algorithm chain_reduce = {"chain", {Kind::reduce}, [](const Problem&) { return true; }, write_chain_reduce};

}  // namespace partita::collective
