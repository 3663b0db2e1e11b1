// Scan and exscan by adding what ever farther ranks have (Hillis and Steele 1986): log2 of the ranks in steps. ⊕ need
// not commute.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_recursive_doubling_scan(const Problem& problem) {
  Writer writer;
  const Share own = own_share(writer, problem);
  Share before;  // the sum of the last ranks before this one
  bool has_before = false;
  for (int far = 1; far < problem.size; far <<= 1) {
    if (problem.rank + far < problem.size) {
      Share sum = own;
      if (has_before) {
        before.is_kept = true;
        sum = combined(writer, problem, before, own);
        before = {before.region, sum.there};
      }
      writer.send(problem.rank + far, sum.region, {sum.there});
    }
    if (problem.rank < far) continue;
    const Region slot = writer.slot(own.region.bytes);
    const Share farther = {slot, writer.receive(problem.rank - far, slot)};
    before = has_before ? combined(writer, problem, farther, before) : farther;
    has_before = true;
  }
  // In place the result lands where the share was, which must have been read.
  int free = problem.in_place ? own.there : Writer::nothing;
  if (problem.kind == Kind::scan && !problem.in_place) {
    free = writer.copy(problem.sent_block(), problem.received_block(), {own.there});
  }
  if (!has_before) return std::move(writer).finished();
  if (problem.kind == Kind::scan) {
    writer.reduce(before.region, problem.received_block(), {before.there, free});
  } else {
    writer.copy(before.region, problem.received_block(), {before.there, free});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm recursive_doubling_scan;
const Algorithm recursive_doubling_scan = {"recursive_doubling",
                                           {Kind::scan, Kind::exscan},
                                           [](const Problem&) { return true; },
                                           write_recursive_doubling_scan};

}  // namespace partita::collective
