// Allreduce around a ring: a piece for each rank goes around once to be added up, ending on that rank, and once more to
// be known. Each rank sends twice the data, whatever the number of ranks. All have the same results bit by bit.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_ring_allreduce(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  Writer writer;
  const Region mine = problem.sent_block();
  const Region all = problem.in_place ? writer.slot(mine.bytes) : problem.received_block();
  const Run run = even_pieces(mine.bytes, problem.unit_bytes, problem.size);
  const int own = problem.rank;
  const int next = (own + 1) % problem.size;
  const int before = (own + problem.size - 1) % problem.size;
  const int marked = writer.mark();
  // Each piece has two: after what the share in it was read, and after what the result is there.
  std::vector<int> read(static_cast<std::size_t>(problem.size), marked);
  std::vector<int> there(static_cast<std::size_t>(problem.size), Writer::nothing);

  Share sum = {run.of(mine, before, before + 1), marked};
  if (problem.in_place) {
    sum.region = writer.slot(sum.region.bytes);
    sum.there = writer.copy(run.of(mine, before, before + 1), sum.region, {marked});
    read[static_cast<std::size_t>(before)] = sum.there;
  }
  for (int step = 2; step <= problem.size; ++step) {
    writer.send(next, sum.region, {sum.there});
    const int piece = (own + problem.size - step) % problem.size;
    const Region share = run.of(mine, piece, piece + 1);
    sum.region = piece == own ? run.of(all, own, own + 1) : writer.slot(share.bytes);
    sum.there = writer.reduce(share, sum.region, {marked, writer.receive(before, sum.region)});
    read[static_cast<std::size_t>(piece)] = sum.there;
  }
  there[static_cast<std::size_t>(own)] = sum.there;
  for (int step = 1; step < problem.size; ++step) {
    writer.send(next, sum.region, {sum.there});
    const int piece = (own + problem.size - step) % problem.size;
    sum.region = run.of(all, piece, piece + 1);
    sum.there = there[static_cast<std::size_t>(piece)] = writer.receive(before, sum.region);
  }
  for (int piece = 0; problem.in_place && piece < problem.size; ++piece) {
    writer.copy(run.of(all, piece, piece + 1), run.of(problem.received_block(), piece, piece + 1),
                {there[static_cast<std::size_t>(piece)], read[static_cast<std::size_t>(piece)]});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm ring_allreduce;
const Algorithm ring_allreduce = {
    "ring", {Kind::allreduce}, [](const Problem& problem) { return problem.commutative; }, write_ring_allreduce};

}  // namespace partita::collective
