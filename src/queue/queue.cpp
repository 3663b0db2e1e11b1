#include "queue/queue.hpp"

#include <fmt/format.h>

#include <utility>

#include "queue/matching.hpp"

namespace partita {
namespace {

/// What has gone wrong with a match, or since, comes out of the start: when that runs, not when it is enqueued.
bool is_matched(const Operation& operation) {
  try {
    return operation.matched();
  } catch (const Error&) {
    return true;
  }
}

/// The set of `operations`. Throws Error where one stands in it twice.
std::unordered_set<Operation*> distinct(std::span<Operation* const> operations) {
  std::unordered_set<Operation*> seen;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (seen.insert(operations[i]).second) continue;
    throw Error(ErrorClass::request, "request {} stands in the array before; expected is each request once", i);
  }
  return seen;
}

}  // namespace

std::unordered_set<Operation*> Queue::checked_starts(std::span<Operation* const> operations) const {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Operation& operation = *operations[i];
    if (!operation.persistent()) throw not_persistent(fmt::format("request {}", i));
    if (!operation.is_host_driven()) {
      throw Error(
          ErrorClass::request,
          "request {} is device-driven (info key partita_driver); expected is one whose epochs the host opens. {}", i,
          operation.explain());
    }
    if (operation.enqueued()) {
      throw Error(ErrorClass::request, "request {} has a start in {} queue, and no wait for it is enqueued. {}", i,
                  started_.contains(&operation) ? "this" : "another", operation.explain());
    }
    if (operation.active()) {
      throw Error(ErrorClass::request, "request {} was started by the host; complete it before it is enqueued. {}", i,
                  operation.explain());
    }
    if (!is_matched(operation)) {
      throw Error(ErrorClass::request, "request {} is not matched; expected is one that Match has matched. {}", i,
                  operation.explain());
    }
  }
  return distinct(operations);
}

void Queue::enqueue_start(std::span<Operation* const> operations) {
  std::unordered_set<Operation*> starting = checked_starts(operations);
  started_.reserve(started_.size() + starting.size());
  started_.merge(starting);  // takes no memory: all of the group are enqueued, or none is
  for (Operation* const each : operations) {
    each->set_enqueued(true);
    run(*each, [each] {
      each->start();
      each->loop_watch().begin();
    });
  }
}

void Queue::check_waits(std::span<Operation* const> operations) const {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = *operations[i];
    if (started_.contains(operations[i])) continue;
    throw Error(ErrorClass::request, "{}; expected is a request that was started in this queue. {}",
                operation.enqueued() ? fmt::format("the start of request {} is in another queue", i)
                                     : fmt::format("no start of request {} is enqueued", i),
                operation.explain());
  }
  distinct(operations);
}

std::optional<Queue::LateError> Queue::take_late_error() {
  return std::exchange(late_error_, std::nullopt);
}

Queue& Queues::make() {
  auto queue = std::make_unique<Queue>();
  Queue& made = *queue;
  const std::lock_guard lock(mutex_);
  live_.emplace(&made, std::move(queue));
  return made;
}

Queue& Queues::find(const void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(handle);
  if (found != live_.end()) return *found->second;
  throw Error(ErrorClass::arg, "argument queue is {}; expected is a queue of Queue_init",
              handle == nullptr ? "PARTITA_QUEUE_NULL" : "no queue; it was freed already, or never made");
}

void Queues::free(const Queue& queue) {
  const std::lock_guard lock(mutex_);
  live_.erase(&queue);
}

}  // namespace partita
