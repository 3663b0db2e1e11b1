// A barrier: in each round a byte goes twice as far as in the one before, once all earlier ones have come. ⌈log₂ p⌉
// steps (Hensgen, Finkel and Manber).
#include "collective/algorithms.hpp"

namespace partita::collective {
namespace {

Schedule write_dissemination_barrier(const Problem& problem) {
  Writer writer;
  Writer::After come;
  for (int distance = 1; distance < problem.size; distance *= 2) {
    writer.send((problem.rank + distance) % problem.size, writer.slot(1), come);
    come.push_back(writer.receive((problem.rank + problem.size - distance) % problem.size, writer.slot(1)));
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm dissemination_barrier;
const Algorithm dissemination_barrier = {
    "dissemination", {Kind::barrier}, [](const Problem&) { return true; }, write_dissemination_barrier};

}  // namespace partita::collective
