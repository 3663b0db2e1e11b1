#include "queue/stream_runs.hpp"

#include <utility>

namespace partita {

using By = NewestStart::By;

std::string StreamRuns::why_not(const Operation& operation, bool captured) const {
  const StreamRunnable* const runnable = operation.facets().stream_runnable;
  return runnable == nullptr ? "only the progress engine can run it" : runnable->why_not_on(stream_, captured);
}

void StreamRuns::check_runnable(const Operation& operation, std::size_t place, bool captured) const {
  const std::string why = why_not(operation, captured);
  if (why.empty()) return;
  if (captured) {
    throw Error(ErrorClass::arg,
                "the queue's stream is being captured into a graph; expected of request {} is that the stream can run "
                "it by itself, but {}. {}",
                place, why, operation.explain());
  }
  if (operation.is_host_driven()) return;
  throw Error(ErrorClass::request,
              "request {} is device-driven (info key partita_driver), and the stream cannot run it by itself: {}. {}",
              place, why, operation.explain());
}

/// A graph that holds one of the two and not the other would repeat half of an epoch.
void StreamRuns::check_waitable(const Operation& operation, std::size_t place, bool captured) const {
  const bool has_captured_start = operation.queue_use().newest_start().by == By::graph;
  if (has_captured_start == captured) return;
  if (captured) {
    throw Error(ErrorClass::arg,
                "the queue's stream is being captured into a graph, and the start of request {} was not; expected are "
                "both in the graph, or neither. {}",
                place, operation.explain());
  }
  throw Error(ErrorClass::arg,
              "the start of request {} was captured into a graph; expected is a wait that is captured, too. {}", place,
              operation.explain());
}

bool StreamRuns::takes_start(Operation& operation, bool captured) const {
  NewestStart& start = operation.queue_use().newest_start();
  start.by = !why_not(operation, captured).empty() ? By::others : captured ? By::graph : By::stream;
  start.is_asked_for = false;
  return start.by != By::others;
}

void StreamRuns::start(Operation& operation, memory::MessageRun& together) {
  NewestStart& start = operation.queue_use().newest_start();
  operation.facets().stream_runnable->enqueue_start(stream_, start.by == By::graph, together);
  start.is_asked_for = true;
}

void StreamRuns::wait(Operation& operation, memory::MessageRun& together) {
  const NewestStart start = operation.queue_use().newest_start();
  if (!start.is_asked_for || start.by == By::graph) {
    operation.queue_use().count_enqueued(-1);  // nobody sees how often the graph passes
  } else {
    waited_.push_back(&operation);
    count_.store(waited_.size(), std::memory_order_relaxed);
  }
  if (start.is_asked_for) operation.facets().stream_runnable->enqueue_wait(stream_, together);
}

std::vector<Operation*> StreamRuns::take_waits() {
  count_.store(0, std::memory_order_relaxed);
  return std::exchange(waited_, {});
}

}  // namespace partita
