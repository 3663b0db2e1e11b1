// Broadcast from rank to rank: with many partitions each link is busy all the time, and none carries anything twice.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_chain_bcast(const Problem& problem) {
  Writer writer;
  const int own = (problem.rank - problem.root + problem.size) % problem.size;
  const Region data = own == 0 ? problem.sent_block() : problem.received_block();
  const int before = (problem.rank + problem.size - 1) % problem.size;
  const int there = own == 0 ? writer.mark() : writer.receive(before, data);
  if (own + 1 < problem.size) writer.send((problem.rank + 1) % problem.size, data, {there});
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm chain_bcast;
const Algorithm chain_bcast = {"chain", {Kind::bcast}, [](const Problem&) { return true; }, write_chain_bcast};

}  // namespace partita::collective
