// Allgather around a ring: each block goes from rank to rank, as soon as it is there, and lands in its place.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_ring_allgather(const Problem& problem) {
  Writer writer;
  // In place the own block lies where it must be.
  const Region own = problem.sent_block();
  const int marked = writer.mark();
  if (!problem.in_place) writer.copy(own, problem.received_block(problem.rank), {marked});
  const int next = (problem.rank + 1) % problem.size;
  const int before = (problem.rank + problem.size - 1) % problem.size;
  Region block = own;
  int there = marked;
  for (int step = 1; step < problem.size; ++step) {
    writer.send(next, block, {there});
    block = problem.received_block((problem.rank + problem.size - step) % problem.size);
    there = writer.receive(before, block);
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm ring_allgather;
const Algorithm ring_allgather = {
    "ring", {Kind::allgather, Kind::allgatherv}, [](const Problem&) { return true; }, write_ring_allgather};

}  // namespace partita::collective
