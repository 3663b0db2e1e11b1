// Allgather by exchanging all there is with ever farther partners, for powers of two: log2 of the ranks in steps.
#include <bit>

#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_recursive_doubling_allgather(const Problem& problem) {
  Writer writer;
  const Run run(problem.received);
  // All blocks by ranks, so that those of a group of ranks are one message.
  const Region all = writer.slot(run.bytes());
  const int marked = writer.mark();
  if (!problem.in_place) writer.copy(problem.sent_block(), problem.received_block(problem.rank), {marked});
  Writer::After there = {writer.copy(problem.sent_block(), run.of(all, problem.rank, problem.rank + 1), {marked})};
  for (int bit = 1; bit < problem.size; bit <<= 1) {
    const int partner = problem.rank ^ bit;
    const int mine = problem.rank & -bit;
    const int theirs = partner & -bit;
    writer.send(partner, run.of(all, mine, mine + bit), there);
    there.push_back(writer.receive(partner, run.of(all, theirs, theirs + bit)));
    for (int block = theirs; block < theirs + bit; ++block) {
      writer.copy(run.of(all, block, block + 1), problem.received_block(block), {there.back()});
    }
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_doubling_allgather;
const Algorithm recursive_doubling_allgather = {
    "recursive_doubling",
    {Kind::allgather, Kind::allgatherv},
    [](const Problem& problem) { return std::has_single_bit(static_cast<unsigned>(problem.size)); },
    write_recursive_doubling_allgather};

}  // namespace partita::collective
