#include "support/queue_compute.hpp"

namespace partita::test {

bool queue_reaches(Memory, Memory) {
  return true;
}
void compute_in_queue(int, const Computation& computation, Memory) {
  compute(computation);
}
void drain_queue(int) {}

}  // namespace partita::test
