// Broadcast along a binary tree: log2 of the ranks in steps, and no rank sends more than twice.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_binary_tree_bcast(const Problem& problem) {
  Writer writer;
  // Ranks count from the root on.
  const int own = (problem.rank - problem.root + problem.size) % problem.size;
  const auto rank_of = [&](int other) { return (other + problem.root) % problem.size; };
  const Region data = own == 0 ? problem.sent_block() : problem.received_block();
  const int there = own == 0 ? writer.mark() : writer.receive(rank_of((own - 1) / 2), data);
  for (const int child : {2 * own + 1, 2 * own + 2}) {
    if (child < problem.size) writer.send(rank_of(child), data, {there});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binary_tree_bcast;
const Algorithm binary_tree_bcast = {
    "binary_tree", {Kind::bcast}, [](const Problem&) { return true; }, write_binary_tree_bcast};

}  // namespace partita::collective
