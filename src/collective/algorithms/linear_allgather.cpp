// Allgather from each rank to each: one step, and every block lands in its place.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_linear_allgather(const Problem& problem) {
  Writer writer;
  // In place the own block lies where it must be.
  const Region own = problem.sent_block();
  const int marked = writer.mark();
  if (!problem.in_place) writer.copy(own, problem.received_block(problem.rank), {marked});
  for (int step = 1; step < problem.size; ++step) {
    writer.send((problem.rank + step) % problem.size, own, {marked});
  }
  for (int step = 1; step < problem.size; ++step) {
    const int from = (problem.rank + problem.size - step) % problem.size;
    writer.receive(from, problem.received_block(from));
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm linear_allgather;
const Algorithm linear_allgather = {
    "linear", {Kind::allgather, Kind::allgatherv}, [](const Problem&) { return true; }, write_linear_allgather};

}  // namespace partita::collective
