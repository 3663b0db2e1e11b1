// Scatter of equal blocks along a binomial tree: log2 of the ranks in steps. Each rank passes on what its subtree
// needs.
#include <ranges>

#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_root_of_binomial_scatter(const Problem& problem, const BinomialTree& tree) {
  Writer writer;
  const std::int64_t bytes = problem.sent[0];
  const int marked = writer.mark();
  for (const int child : std::views::reverse(tree.children())) {
    const int count = tree.subtree_size(child);
    if (count == 1) {
      writer.send(tree.rank_of(child), problem.sent_block(tree.rank_of(child)), {marked});
      continue;
    }
    const Region blocks = writer.slot(count * bytes);
    Writer::After there;
    for (int i = 0; i < count; ++i) {
      const Region block = problem.sent_block(tree.rank_of(child + i));
      there.push_back(writer.copy(block, blocks.part(i * bytes, bytes), {marked}));
    }
    writer.send(tree.rank_of(child), blocks, there);
  }
  if (!problem.in_place) writer.copy(problem.sent_block(problem.rank), problem.received_block(), {marked});
  return std::move(writer).finished();
}

Schedule write_binomial_scatter(const Problem& problem) {
  const BinomialTree tree(problem, problem.root);
  if (problem.rank == problem.root) return write_root_of_binomial_scatter(problem, tree);
  Writer writer;
  const int parent = tree.rank_of(tree.parent());
  if (tree.children().empty()) {
    writer.receive(parent, problem.received_block());
    return std::move(writer).finished();
  }
  const std::int64_t bytes = problem.received[0];
  const Region blocks = writer.slot(tree.subtree_size(tree.own()) * bytes);
  const int received = writer.receive(parent, blocks);
  for (const int child : std::views::reverse(tree.children())) {
    const Region part = blocks.part((child - tree.own()) * bytes, tree.subtree_size(child) * bytes);
    writer.send(tree.rank_of(child), part, {received});
  }
  writer.copy(blocks.part(0, bytes), problem.received_block(), {received});
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binomial_scatter;
const Algorithm binomial_scatter = {
    "binomial", {Kind::scatter}, [](const Problem&) { return true; }, write_binomial_scatter};

}  // namespace partita::collective
