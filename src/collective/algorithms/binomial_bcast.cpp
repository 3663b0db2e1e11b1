// Broadcast along a binomial tree: log2 of the ranks in steps, for messages whose start-up counts.
#include <ranges>

#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_binomial_bcast(const Problem& problem) {
  Writer writer;
  const BinomialTree tree(problem, problem.root);
  const bool is_root = problem.rank == problem.root;
  const Region data = is_root ? problem.sent_block() : problem.received_block();
  const int there = is_root ? writer.mark() : writer.receive(tree.rank_of(tree.parent()), data);
  // The largest subtree has the longest way to go.
  for (const int child : std::views::reverse(tree.children())) writer.send(tree.rank_of(child), data, {there});
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binomial_bcast;
const Algorithm binomial_bcast = {"binomial", {Kind::bcast}, [](const Problem&) { return true; }, write_binomial_bcast};

}  // namespace partita::collective
