// Reduce and scatter around a ring: each block starts behind its owner and goes around to it, each rank adding its
// share. Each rank sends its data once.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_ring_reduce_scatter(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  Writer writer;
  const int own = problem.rank;
  const int next = (own + 1) % problem.size;
  const int before = (own + problem.size - 1) % problem.size;
  const int marked = writer.mark();
  Share sum = {problem.sent_block(before), marked};
  Writer::After read;
  if (problem.in_place) {
    sum.region = writer.slot(sum.region.bytes);
    sum.there = writer.copy(problem.sent_block(before), sum.region, {marked});
    read.push_back(sum.there);
  }
  for (int step = 2; step <= problem.size; ++step) {
    writer.send(next, sum.region, {sum.there});
    const int block = (own + problem.size - step) % problem.size;
    const Region share = problem.sent_block(block);
    const bool is_last = block == own && !problem.in_place;
    sum.region = is_last ? problem.received_block() : writer.slot(share.bytes);
    sum.there = writer.reduce(share, sum.region, {marked, writer.receive(before, sum.region)});
    read.push_back(sum.there);
  }
  // In place the result lies over the blocks that were to be read.
  if (problem.in_place) writer.copy(sum.region, problem.received_block(), read);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm ring_reduce_scatter;
const Algorithm ring_reduce_scatter = {"ring",
                                       {Kind::reduce_scatter, Kind::reduce_scatter_block},
                                       [](const Problem& problem) { return problem.commutative; },
                                       write_ring_reduce_scatter};

}  // namespace partita::collective
