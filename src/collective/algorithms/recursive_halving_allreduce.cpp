// Allreduce as Rabenseifner does it (Thakur, Rabenseifner and Gropp 2005): partners halve what each of them adds up,
// then double what each of them knows. Twice log2 of the ranks in steps; each rank sends twice the data.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_recursive_halving_allreduce(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  const Fold fold(problem);
  if (fold.leaves) return left_to_the_next(problem);
  Writer writer;
  const std::int64_t bytes = problem.sent[0];
  const Region sum = writer.slot(bytes);
  int added = writer.copy(problem.sent_block(), sum, {writer.mark()});
  if (fold.is_paired) {
    const Region lower = writer.slot(bytes);
    added = writer.reduce(lower, sum, {added, writer.receive(problem.rank - 1, lower)});
  }
  const Run run = even_pieces(bytes, problem.unit_bytes, fold.power);
  for (int bit = fold.power >> 1; bit > 0; bit >>= 1) {
    const int partner = fold.own ^ bit;
    const int kept = fold.own & -bit;
    const int given = partner & -bit;
    writer.send(fold.rank_of(partner), run.of(sum, given, given + bit), {added});
    const Region mine = run.of(sum, kept, kept + bit);
    const Region other = writer.slot(mine.bytes);
    const int received = writer.receive(fold.rank_of(partner), other);
    // A sum of no bytes keeps what came before it.
    if (mine.bytes > 0) added = writer.reduce(other, mine, {added, received});
  }
  const Region all = problem.in_place ? writer.slot(bytes) : problem.received_block();
  Writer::After there = {
      writer.copy(run.of(sum, fold.own, fold.own + 1), run.of(all, fold.own, fold.own + 1), {added})};
  for (int bit = 1; bit < fold.power; bit <<= 1) {
    const int partner = fold.own ^ bit;
    const int mine = fold.own & -bit;
    const int theirs = partner & -bit;
    writer.send(fold.rank_of(partner), run.of(all, mine, mine + bit), there);
    there.push_back(writer.receive(fold.rank_of(partner), run.of(all, theirs, theirs + bit)));
  }
  if (fold.is_paired) writer.send(problem.rank - 1, all, there);
  there.push_back(added);
  if (problem.in_place) writer.copy(all, problem.received_block(), there);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_halving_allreduce;
const Algorithm recursive_halving_allreduce = {"recursive_halving",
                                               {Kind::allreduce},
                                               [](const Problem& problem) { return problem.commutative; },
                                               write_recursive_halving_allreduce};

}  // namespace partita::collective
