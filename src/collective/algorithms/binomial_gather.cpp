// Gather of equal blocks along a binomial tree: log2 of the ranks in steps. Each rank passes on what its subtree has.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_root_of_binomial_gather(const Problem& problem, const BinomialTree& tree) {
  Writer writer;
  const std::int64_t bytes = problem.received[0];
  const int marked = problem.sent.empty() ? Writer::nothing : writer.mark();
  if (!problem.in_place) writer.copy(problem.sent_block(), problem.received_block(problem.rank), {marked});
  for (const int child : tree.children()) {
    const int count = tree.subtree_size(child);
    if (count == 1) {
      writer.receive(tree.rank_of(child), problem.received_block(tree.rank_of(child)));
      continue;
    }
    const Region blocks = writer.slot(count * bytes);
    const int received = writer.receive(tree.rank_of(child), blocks);
    for (int i = 0; i < count; ++i) {
      writer.copy(blocks.part(i * bytes, bytes), problem.received_block(tree.rank_of(child + i)), {received});
    }
  }
  return std::move(writer).finished();
}

Schedule write_binomial_gather(const Problem& problem) {
  const BinomialTree tree(problem, problem.root);
  if (problem.rank == problem.root) return write_root_of_binomial_gather(problem, tree);
  Writer writer;
  const int parent = tree.rank_of(tree.parent());
  if (tree.children().empty()) {
    writer.send(parent, problem.sent_block(), {writer.mark()});
    return std::move(writer).finished();
  }
  const std::int64_t bytes = problem.sent[0];
  const Region blocks = writer.slot(tree.subtree_size(tree.own()) * bytes);
  Writer::After there = {writer.copy(problem.sent_block(), blocks.part(0, bytes), {writer.mark()})};
  for (const int child : tree.children()) {
    const Region landing = blocks.part((child - tree.own()) * bytes, tree.subtree_size(child) * bytes);
    there.push_back(writer.receive(tree.rank_of(child), landing));
  }
  writer.send(parent, blocks, there);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binomial_gather;
const Algorithm binomial_gather = {
    "binomial", {Kind::gather}, [](const Problem&) { return true; }, write_binomial_gather};

}  // namespace partita::collective
