#include "support/queue_kind.hpp"

namespace partita::test {

Partita_Queue_type queue_type() {
  return PARTITA_QUEUE_HOST;
}
void* queue_stream(int) {
  return nullptr;
}
bool queue_runs_ahead() {
  return false;
}

}  // namespace partita::test
