// The kind of queues that a suite runs on: the host's (queue_kind_host.cpp), or CUDA streams, which may be the fake
// GPU's (queue_kind_stream.cpp).
#pragma once

#include <partita/partita.h>

namespace partita::test {

Partita_Queue_type queue_type();
/// What Queue_init takes for one of several streams of the program.
void* queue_stream(int which);
/// Whether calls that enqueue return before what they have enqueued has run.
bool queue_runs_ahead();

}  // namespace partita::test
