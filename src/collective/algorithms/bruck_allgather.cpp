// Allgather as Bruck et al. (1997) do it: log2 of the ranks in steps for any number of ranks. After each step a rank
// has the blocks of twice as many ranks from itself on.
#include <algorithm>

#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_bruck_allgather(const Problem& problem) {
  Writer writer;
  const auto rank_of = [&](int other) { return (problem.rank + other) % problem.size; };
  std::vector<std::int64_t> sizes = problem.received;
  std::ranges::rotate(sizes, sizes.begin() + problem.rank);
  const Run run(sizes);
  const Region all = writer.slot(run.bytes());  // from the own block on
  const int marked = writer.mark();
  if (!problem.in_place) writer.copy(problem.sent_block(), problem.received_block(problem.rank), {marked});
  Writer::After there = {writer.copy(problem.sent_block(), run.of(all, 0, 1), {marked})};
  for (int blocks = 1; blocks < problem.size; blocks <<= 1) {
    const int more = std::min(blocks, problem.size - blocks);
    // The last step may need less than what is there. What came with the i-th receive begins at block 2^(i-1).
    Writer::After needed;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (i == 0 || 1 << (i - 1) < more) needed.push_back(there[i]);
    }
    writer.send(rank_of(problem.size - blocks), run.of(all, 0, more), needed);
    there.push_back(writer.receive(rank_of(blocks), run.of(all, blocks, blocks + more)));
    for (int i = blocks; i < blocks + more; ++i) {
      writer.copy(run.of(all, i, i + 1), problem.received_block(rank_of(i)), {there.back()});
    }
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm bruck_allgather;
const Algorithm bruck_allgather = {
    "bruck", {Kind::allgather, Kind::allgatherv}, [](const Problem&) { return true; }, write_bruck_allgather};

}  // namespace partita::collective
