#include "support/fake_stream.hpp"
#include "support/queue_compute.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {
namespace {

FakeWorker& worker_of(int which) {
  return *static_cast<FakeWorker*>(*static_cast<void**>(queue_stream(which)));
}

}  // namespace

/// The memory of the fake GPU is the host's.
bool queue_reaches(Memory, Memory) {
  return true;
}
void compute_in_queue(int which, const Computation& computation, Memory) {
  worker_of(which).ask([computation] { compute(computation); });
}
void drain_queue(int which) {
  worker_of(which).drain();
}

}  // namespace partita::test
