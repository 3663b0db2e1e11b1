// Reduce and scatter by sending each block to its owner, who adds up in the order of the ranks: one step, and ⊕ need
// not commute.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_pairwise_reduce_scatter(const Problem& problem) {
  if (problem.size == 1) return alone(problem);
  Writer writer;
  Writer::After read;
  for (int step = 1; step < problem.size; ++step) {
    const int owner = (problem.rank + step) % problem.size;
    const Share share = own_share(writer, problem, owner);
    writer.send(owner, share.region, {share.there});
    if (problem.in_place) read.push_back(share.there);
  }
  Share own = own_share(writer, problem, problem.rank);
  own.is_kept = !problem.in_place;
  Share sum;
  for (int source = 0; source < problem.size; ++source) {
    Share share = own;
    if (source != problem.rank) {
      const Region slot = writer.slot(own.region.bytes);
      share = {slot, writer.receive(source, slot)};
    }
    sum = source == 0 ? share : combined(writer, problem, sum, share);
  }
  // In place the result lies over the blocks that were to be read.
  read.push_back(sum.there);
  writer.copy(sum.region, problem.received_block(), read);
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm pairwise_reduce_scatter;
const Algorithm pairwise_reduce_scatter = {"pairwise",
                                           {Kind::reduce_scatter, Kind::reduce_scatter_block},
                                           [](const Problem&) { return true; },
                                           write_pairwise_reduce_scatter};

}  // namespace partita::collective
