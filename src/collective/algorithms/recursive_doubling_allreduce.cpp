// Allreduce by exchanging all there is with ever farther partners: log2 of the ranks in steps. Every rank adds in the
// order of the ranks, so that ⊕ need not commute and all results are the same bit by bit.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_recursive_doubling_allreduce(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  const Fold fold(problem);
  if (fold.leaves) return left_to_the_next(problem);
  Writer writer;
  Share sum = own_share(writer, problem);
  const auto received_from = [&](int peer) {
    const Region slot = writer.slot(sum.region.bytes);
    return Share{slot, writer.receive(peer, slot)};
  };
  if (fold.is_paired) sum = combined(writer, problem, received_from(problem.rank - 1), sum);
  for (int bit = 1; bit < fold.power; bit <<= 1) {
    const int partner = fold.own ^ bit;
    writer.send(fold.rank_of(partner), sum.region, {sum.there});
    sum.is_kept = true;
    const Share other = received_from(fold.rank_of(partner));
    sum = partner < fold.own ? combined(writer, problem, other, sum) : combined(writer, problem, sum, other);
  }
  if (fold.is_paired) writer.send(problem.rank - 1, sum.region, {sum.there});
  deliver(writer, problem, sum);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_doubling_allreduce;
const Algorithm recursive_doubling_allreduce = {
    "recursive_doubling", {Kind::allreduce}, [](const Problem&) { return true; }, write_recursive_doubling_allreduce};

}  // namespace partita::collective
