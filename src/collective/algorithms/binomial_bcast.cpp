// Broadcast along a binomial tree: log2 of the ranks in steps, for messages whose start-up counts.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write(const Problem& problem) {
  Writer writer;
  // Ranks count from the root on.
  const int own = (problem.rank - problem.root + problem.size) % problem.size;
  const auto rank_of = [&](int other) { return (other + problem.root) % problem.size; };
  const bool is_root = own == 0;
  const Region data = is_root ? problem.sent_block() : problem.received_block();
  // The parent is the rank without the lowest bit that is set, the children those with one bit below it.
  int lowest = 1;
  while (lowest < problem.size && (own & lowest) == 0) lowest <<= 1;
  const int there = is_root ? writer.mark() : writer.receive(rank_of(own - lowest), data);
  for (int bit = lowest >> 1; bit > 0; bit >>= 1) {
    if (own + bit < problem.size) writer.send(rank_of(own + bit), data, {there});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm binomial_bcast;
const Algorithm binomial_bcast = {"binomial", {Kind::bcast}, [](const Problem&) { return true; }, write};

}  // namespace partita::collective
