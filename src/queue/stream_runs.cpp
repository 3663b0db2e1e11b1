#include "queue/stream_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "queue/shared_word.hpp"

namespace partita {

using By = NewestStart::By;

/// Whether the stream can run the next epoch of `operation` by itself. `captured`: it is being captured.
bool StreamRuns::can_run(const Operation& operation, bool captured) const {
  const StreamRunnable* const runnable = operation.facets().stream_runnable;
  return runnable != nullptr && runnable->runs_on(stream_, captured);
}

void StreamRuns::check_runnable(const Operation& operation, std::size_t place, bool captured) const {
  if (can_run(operation, captured)) return;
  const StreamRunnable* const runnable = operation.facets().stream_runnable;
  const std::string why =
      runnable == nullptr ? "only the progress engine can run it" : runnable->why_not_on(stream_, captured);
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
  start.by = !can_run(operation, captured) ? By::others : captured ? By::graph : By::stream;
  start.is_asked_for = false;
  return start.by != By::others;
}

void StreamRuns::start(Operation& operation, memory::MessageRun& together) {
  NewestStart& start = operation.queue_use().newest_start();
  operation.facets().stream_runnable->enqueue_start(stream_, start.by == By::graph, together);
  start.is_asked_for = true;
}

void StreamRuns::wait(Operation& operation, std::uint32_t behind, memory::MessageRun& together) {
  const NewestStart start = operation.queue_use().newest_start();
  if (!start.is_asked_for || start.by == By::graph) {
    operation.queue_use().count_enqueued(-1);  // nobody sees how often the graph passes
  } else {
    waited_.push_back({&operation, behind});
    count_.store(waited_.size(), std::memory_order_relaxed);
  }
  if (start.is_asked_for) operation.facets().stream_runnable->enqueue_wait(stream_, together);
}

std::vector<StreamWait> StreamRuns::take_waits() {
  count_.store(0, std::memory_order_relaxed);
  return std::exchange(waited_, {});
}

namespace {

/// The place in `waits` of the wait for the epoch in which `operation` holds a stream; none where that is not enqueued.
/// The first one, where nobody counts its starts: those in front may be over.
std::optional<std::size_t> place_of(const std::vector<StreamWait>& waits, const Operation& operation,
                                    std::optional<std::uint32_t> starts_to_come) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].operation == &operation) places.push_back(i);
  }
  if (!starts_to_come) return places.front();
  const std::uint32_t starts_without_wait = operation.queue_use().newest_start().has_wait ? 0 : 1;
  const std::size_t from_the_end = 1 + std::size_t{*starts_to_come} - starts_without_wait;
  if (from_the_end == 0 || from_the_end > places.size()) return {};
  return places[places.size() - from_the_end];
}

}  // namespace

/// Each request has one epoch that is not over, of those that streams have started. The stream stands at a wait of such
/// a one only if it has come to all in front of it.
std::optional<std::string> StreamRuns::explain_held(const std::vector<StreamWait>& waits, std::uint32_t reached) {
  std::set<const Operation*> seen;
  std::size_t first = waits.size();
  std::string why;
  for (const StreamWait& each : waits) {
    if (!seen.insert(each.operation).second) continue;
    const StreamRunnable& runnable = *each.operation->facets().stream_runnable;
    const std::optional<StreamRunnable::Held> held = runnable.held();
    if (!held) continue;
    const auto place = place_of(waits, *each.operation, held->starts_to_come);
    if (!place || *place >= first) continue;
    if (!runnable.starts_wait() && !has_come_to(reached, waits[*place].behind)) continue;
    first = *place;
    why = held->why;
  }
  if (first == waits.size()) return {};
  return fmt::format("The stream of the queue stands at the wait for what it runs by itself. {}", why);
}

}  // namespace partita
