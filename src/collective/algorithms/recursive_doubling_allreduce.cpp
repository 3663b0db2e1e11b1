// Allreduce by exchanging all there is with ever farther partners: log2 of the ranks in steps. Every rank adds in the
// order of the ranks, so that ⊕ need not commute and all results are the same bit by bit.
#include <bit>

#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write(const Problem& problem) {
  Writer writer;
  const std::int64_t bytes = problem.sent[0];
  // Of the first 2 × extra ranks the even ones leave their share to the odd ones, so that a power of two goes on.
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.size)));
  const int extra = problem.size - power;
  const bool in_pair = problem.rank < 2 * extra;
  int there = writer.mark();
  Region sum = problem.sent_block();
  if (problem.in_place) {
    sum = writer.slot(bytes);
    there = writer.copy(problem.sent_block(), sum, {there});
  }
  if (in_pair && problem.rank % 2 == 0) {
    writer.send(problem.rank + 1, sum, {there});
    // In place the result lands where the share was, which must have been read: it goes by a slot.
    const Region result = problem.in_place ? writer.slot(bytes) : problem.received_block();
    const int received = writer.receive(problem.rank + 1, result);
    if (problem.in_place) writer.copy(result, problem.received_block(), {there, received});
    return std::move(writer).finished();
  }
  if (in_pair) {
    const Region lower = writer.slot(bytes);
    const int received = writer.receive(problem.rank - 1, lower);
    const Region both = writer.slot(bytes);
    const int own = writer.copy(sum, both, {there});
    there = writer.reduce(lower, both, {received, own});
    sum = both;
  }
  const int own = in_pair ? problem.rank / 2 : problem.rank - extra;
  const auto rank_of = [&](int other) { return other < extra ? 2 * other + 1 : other + extra; };
  for (int bit = 1; bit < power; bit <<= 1) {
    const int partner = own ^ bit;
    const Region other = writer.slot(bytes);
    writer.send(rank_of(partner), sum, {there});
    const int received = writer.receive(rank_of(partner), other);
    if (partner < own) {
      const Region both = writer.slot(bytes);
      const int copied = writer.copy(sum, both, {there});
      there = writer.reduce(other, both, {received, copied});
      sum = both;
    } else {
      there = writer.reduce(sum, other, {there, received});
      sum = other;
    }
  }
  if (in_pair) writer.send(problem.rank - 1, sum, {there});
  writer.copy(sum, problem.received_block(), {there});
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_doubling_allreduce;
const Algorithm recursive_doubling_allreduce = {
    "recursive_doubling", {Kind::allreduce}, [](const Problem&) { return true; }, write};

}  // namespace partita::collective
