// Reduce along a binomial tree: log2 of the ranks in steps. Each rank has the sum of a run of ranks, so that ⊕ need not
// commute.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_binomial_reduce(const Problem& problem) {
  Writer writer;
  // Where ⊕ does not commute the ranks count from 0 on, which sends the sum to the root.
  const int top = problem.commutative ? problem.root : 0;
  const BinomialTree tree(problem, top);
  const bool is_top = problem.rank == top;
  const bool is_root = problem.rank == problem.root;
  const Share own = is_top ? Share{problem.sent_block(), writer.mark(), true} : own_share(writer, problem);
  Share sum = own;
  for (const int child : tree.children()) {
    const Region upper = writer.slot(own.region.bytes);
    sum = combined(writer, problem, sum, {upper, writer.receive(tree.rank_of(child), upper)});
  }
  if (!is_top) writer.send(tree.rank_of(tree.parent()), sum.region, {sum.there});
  if (is_top && !is_root) writer.send(problem.root, sum.region, {sum.there});
  if (is_top && is_root) deliver(writer, problem, sum);
  if (!is_top && is_root) {
    const Region landing = problem.in_place ? writer.slot(own.region.bytes) : problem.received_block();
    const int received = writer.receive(top, landing);
    if (problem.in_place) writer.copy(landing, problem.received_block(), {received, own.there});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binomial_reduce;
const Algorithm binomial_reduce = {
    "binomial", {Kind::reduce}, [](const Problem&) { return true; }, write_binomial_reduce};

}  // namespace partita::collective
