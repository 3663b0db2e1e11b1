// Reduce and scatter by partners that halve what each of them adds up (Thakur, Rabenseifner and Gropp 2005): log2 of
// the ranks in steps; each rank sends its data about once.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_recursive_halving_reduce_scatter(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  Writer writer;
  const int own = problem.rank;
  const Run run(problem.scattered);
  // All blocks by ranks, so that those of a group of ranks are one message.
  const Region sum = writer.slot(run.bytes());
  const int marked = writer.mark();
  Writer::After added;
  for (int block = 0; block < problem.size; ++block) {
    added.push_back(writer.copy(problem.sent_block(block), run.of(sum, block, block + 1), {marked}));
  }
  const Fold fold(problem);
  if (fold.leaves) {
    writer.send(own + 1, sum, added);
    const Region landing = problem.in_place ? writer.slot(problem.received[0]) : problem.received_block();
    added.push_back(writer.receive(own + 1, landing));
    if (problem.in_place) writer.copy(landing, problem.received_block(), added);
    return std::move(writer).finished();
  }
  const auto add = [&](int peer, const Region& mine) {
    const Region other = writer.slot(mine.bytes);
    added.push_back(writer.receive(peer, other));
    added = {writer.reduce(other, mine, added)};
  };
  if (fold.is_paired) add(own - 1, sum);
  for (int bit = fold.power >> 1; bit > 0; bit >>= 1) {
    const int partner = fold.own ^ bit;
    const int kept = fold.own & -bit;
    const int given = partner & -bit;
    writer.send(fold.rank_of(partner), run.of(sum, fold.first_of(given), fold.first_of(given + bit)), added);
    add(fold.rank_of(partner), run.of(sum, fold.first_of(kept), fold.first_of(kept + bit)));
  }
  if (fold.is_paired) writer.send(own - 1, run.of(sum, own - 1, own), added);
  writer.copy(run.of(sum, own, own + 1), problem.received_block(), added);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_halving_reduce_scatter;
const Algorithm recursive_halving_reduce_scatter = {"recursive_halving",
                                                    {Kind::reduce_scatter, Kind::reduce_scatter_block},
                                                    [](const Problem& problem) { return problem.commutative; },
                                                    write_recursive_halving_reduce_scatter};

}  // namespace partita::collective
