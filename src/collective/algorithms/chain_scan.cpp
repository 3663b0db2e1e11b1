// Scan and exscan from rank to rank: with many partitions each rank is busy all the time. ⊕ need not commute.
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_scan(const Problem& problem) {
  Writer writer;
  int there = writer.mark();
  const Region sum = problem.received_block();
  if (!problem.in_place) there = writer.copy(problem.sent_block(), sum, {there});
  if (problem.rank > 0) {
    const Region before = writer.slot(sum.bytes);
    there = writer.reduce(before, sum, {there, writer.receive(problem.rank - 1, before)});
  }
  if (problem.rank + 1 < problem.size) writer.send(problem.rank + 1, sum, {there});
  return std::move(writer).finished();
}

Schedule write_exscan(const Problem& problem) {
  Writer writer;
  const int marked = writer.mark();
  const bool is_last = problem.rank + 1 == problem.size;
  if (problem.rank == 0) {
    if (!is_last) writer.send(1, problem.sent_block(), {marked});
    return std::move(writer).finished();
  }
  const Region before = problem.in_place ? writer.slot(problem.sent[0]) : problem.received_block();
  const int received = writer.receive(problem.rank - 1, before);
  int read = marked;
  if (!is_last) {
    const Region sum = writer.slot(problem.sent[0]);
    read = writer.copy(problem.sent_block(), sum, {marked});
    writer.send(problem.rank + 1, sum, {writer.reduce(before, sum, {received, read})});
  }
  if (problem.in_place) writer.copy(before, problem.received_block(), {received, read});
  return std::move(writer).finished();
}

Schedule write_chain_scan(const Problem& problem) {
  return problem.kind == Kind::scan ? write_scan(problem) : write_exscan(problem);
}

}  // namespace

extern const Algorithm chain_scan;
const Algorithm chain_scan = {
    "chain", {Kind::scan, Kind::exscan}, [](const Problem&) { return true; }, write_chain_scan};

}  // namespace partita::collective
