#include "queue/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

/// Throws Error where one of `operations` stands there twice.
void check_distinct(std::span<Operation* const> operations) {
  static std::atomic<std::uint64_t> calls{0};
  const std::uint64_t call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (std::exchange(operations[i]->queue_use().newest_start().call, call) != call) continue;
    throw Error(ErrorClass::request, "request {} stands in the array before; expected is each request once", i);
  }
}

}  // namespace

void Queue::check_runnable(const Operation& operation, std::size_t place) const {
  if (operation.is_host_driven()) return;
  throw Error(ErrorClass::request,
              "request {} is device-driven (info key partita_driver); expected is one whose epochs the host opens. {}",
              place, operation.explain());
}

void Queue::check_startable(const Operation& operation, std::size_t place) const {
  if (!operation.persistent()) throw not_persistent(fmt::format("request {}", place));
  if (const std::string why = operation.why_in_no_queue(); !why.empty()) {
    throw Error(ErrorClass::request, "request {} {}. {}", place, why, operation.explain());
  }
  if (operation.queue_use().enqueued()) {
    const NewestStart& start = operation.queue_use().newest_start();
    const bool is_here = start.queue == this;
    if (!start.has_wait) {
      throw Error(ErrorClass::request, "request {} has a start in {} queue, and no wait for it is enqueued", place,
                  is_here ? "this" : "another");
    }
    if (is_here) return check_runnable(operation, place);
    throw Error(ErrorClass::request,
                "request {} has a wait in another queue that is not over; Queue_wait of that queue waits for it",
                place);
  }
  if (operation.active()) {
    throw Error(ErrorClass::request, "request {} was started by the host; complete it before it is enqueued. {}", place,
                operation.explain());
  }
  if (!is_matched(operation)) {
    throw Error(ErrorClass::request, "request {} is not matched; expected is one that Match has matched. {}", place,
                operation.explain());
  }
  check_runnable(operation, place);
}

void Queue::check_starts(std::span<Operation* const> operations) const {
  for (std::size_t i = 0; i < operations.size(); ++i) check_startable(*operations[i], i);
  check_distinct(operations);
}

bool Queue::has_start(const Operation& operation) const {
  const NewestStart& start = operation.queue_use().newest_start();
  return start.queue == this && !start.has_wait && start.place < started_.size() && started_[start.place] == &operation;
}

void Queue::forget_start(Operation& operation) {
  const std::size_t place = operation.queue_use().newest_start().place;
  started_[place] = started_.back();
  started_[place]->queue_use().newest_start().place = place;
  started_.pop_back();
}

void Queue::enqueue_start(std::span<Operation* const> operations) {
  prepare();
  for (Operation* const each : operations) {
    // An Imatch may have made it, and nobody looked.
    const bool may_be_seen = each->is_host_driven() || may_make_device_requests();
    if (!each->queue_use().enqueued() && may_be_seen) each->match_is_seen();
  }
  check_starts(operations);
  if (started_.capacity() - started_.size() < operations.size()) {
    started_.reserve(std::max(2 * started_.size(), started_.size() + operations.size()));
  }
  for (Operation* const each : operations) each->queue_use().count_enqueued(1);
  try {
    run_starts(operations);
  } catch (...) {
    for (Operation* const each : operations) each->queue_use().count_enqueued(-1);
    throw;
  }
  for (Operation* const each : operations) {
    NewestStart& start = each->queue_use().newest_start();
    start.queue = this;
    start.has_wait = false;
    start.place = started_.size();
    started_.push_back(each);  // takes no memory: all of the group are enqueued, or none is
  }
}

void Queue::check_waits(std::span<Operation* const> operations) const {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = *operations[i];
    if (has_start(operation)) {
      check_waitable(operation, i);
      continue;
    }
    const QueueUse& use = operation.queue_use();
    const bool is_elsewhere = use.enqueued() && !use.newest_start().has_wait;
    throw Error(ErrorClass::request, "{}; expected is a request that was started in this queue",
                is_elsewhere ? fmt::format("the start of request {} is in another queue", i)
                             : fmt::format("no start of request {} is enqueued that has no wait", i));
  }
  check_distinct(operations);
}

void Queue::enqueue_wait(std::span<Operation* const> operations) {
  prepare();
  check_waits(operations);
  run_waits(operations);
  for (Operation* const each : operations) {
    each->queue_use().newest_start().has_wait = true;
    forget_start(*each);
  }
}

void Queue::keep(const Error& error, const Operation& operation) {
  const std::lock_guard lock(late_mutex_);
  if (!late_error_) late_error_ = LateError{error, operation.communicator()};
}

std::optional<Queue::LateError> Queue::take_late_error() {
  const std::lock_guard lock(late_mutex_);
  return std::exchange(late_error_, std::nullopt);
}

Queue& Queues::add(std::unique_ptr<Queue> queue) {
  Queue& added = *queue;
  const std::lock_guard lock(mutex_);
  live_.emplace(&added, std::move(queue));
  return added;
}

Queue& Queues::find(const void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(handle);
  if (found != live_.end()) return *found->second;
  throw Error(ErrorClass::arg, "argument queue is {}; expected is a queue of Queue_init",
              handle == nullptr ? "PARTITA_QUEUE_NULL" : "no queue; it was freed already, or never made");
}

void Queues::free(const Queue& queue) {
  std::unique_ptr<Queue> freed;  // goes without the lock
  const std::lock_guard lock(mutex_);
  freed = std::move(live_.extract(&queue).mapped());
}

bool Queues::may_be_under_way() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  return std::ranges::any_of(live_, [](const auto& live) { return live.second->may_be_under_way(); });
}

/// Without the lock, which look_at_streams() takes meanwhile.
void Queues::give_up_all() noexcept {
  for (const auto& [address, queue] : live_) queue->begin_end();
  for (const auto& [address, queue] : live_) queue->end_soon();
  for (const auto& [address, queue] : live_) queue->let_go();
  for (const auto& [address, queue] : live_) queue->give_up();
  std::unordered_map<const void*, std::unique_ptr<Queue>> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(live_);
}

void Queues::look_at_streams(int device) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, queue] : live_) queue->look_at_stream(device);
}

}  // namespace partita
