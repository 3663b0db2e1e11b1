// What a step of the progress engine does for a queue of a CUDA stream: it runs tasks, in order.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/current_error.hpp"
#include "queue/stream_queue.hpp"

namespace partita {
namespace {

using namespace std::chrono_literals;

constexpr auto time_between_gpu_checks = 250ms;

}  // namespace

/// The first task, or null, where the engine rests until one comes.
StreamQueue::Task* StreamQueue::head() {
  const std::lock_guard lock(mutex_);
  if (!tasks_.empty()) return &tasks_.front();
  be_prompt(false);
  return nullptr;
}

ActiveStep::Outcome StreamQueue::step() noexcept {
  steps_.fetch_add(1, std::memory_order_relaxed);
  bool moved = false;
  for (Task* task = head(); task != nullptr; task = head()) {
    if (!run(*task)) return moved ? Outcome::moved : Outcome::waiting;
    end(*task);
    moved = true;
  }
  return Outcome::idle;
}

/// Whether the task has run.
bool StreamQueue::run(Task& task) {
  const bool has_come = why_broken_.has_value() || has_come_to(reached_.load(), task.place);
  if (task.kind != Kind::wait) {
    if (has_come) {
      for (Part& part : task.parts) task.kind == Kind::start ? start(task, part) : pass(part);
      return true;
    }
  } else {
    bool over = true;
    for (Part& part : task.parts) over = try_to_complete(task, part) && over;
    if (over) return true;
    give_up_failed(task);  // kernels that wait for it, and its peers, hear at once
    if (has_come && watch(task)) return true;
  }
  if (!has_come) check_gpu();
  return false;
}

/// Throws Error where nothing of the task can be run any more.
void StreamQueue::throw_if_lost(const Task& task) const {
  if (why_broken_) throw Error(*why_broken_);
  if (is_let_go_.load(std::memory_order_relaxed)) throw finalised();
  if (!has_come_to(released_.load(), task.place)) return;
  if (is_ending()) throw finalised();
  throw Error(
      ErrorClass::other,
      "the stream of the queue was let go after {} s (PARTITA_TIMEOUT) in which this rank waited for its GPU and "
      "so could not look after the queue. What it waited for may stand behind the stream, as streams share the "
      "GPU's work queues; CUDA_DEVICE_MAX_CONNECTIONS=32 keeps them apart",
      requests_.settings.timeout_s);
}

void StreamQueue::start(const Task& task, Part& part) {
  Operation& operation = *part.operation;
  const bool started = about(operation, [&] {
    try {
      throw_if_lost(task);
    } catch (const Error& error) {
      operation.fail(error);  // else its next epoch would meet this one of its peers
      throw;
    }
    operation.start();
    operation.loop_watch().begin();
  });
  std::vector<Range> marks;
  {
    const std::lock_guard lock(mutex_);
    marks = std::move(part.marks);
    operation.queue_use().start_has_run();
  }
  if (!started) return;
  for (const auto [first, last] : marks) {
    about(operation, [&] { operation.facets().markable->mark(first, last); });
  }
}

/// Ends the wait for it if that can end, if need be by an error. Whether it is over.
bool StreamQueue::try_to_complete(const Task& task, Part& part) {
  if (part.over) return true;
  Operation& operation = *part.operation;
  try {
    throw_if_lost(task);
    if (operation.open()) {  // a start that failed has opened nothing
      if (!operation.done()) return false;
      throw_if_lost(task);  // the stream may have been let go while that asked the GPU
      operation.close();
    }
  } catch (const std::exception&) {
    fail(part, current_error());
    return true;
  }
  part.over = true;
  operation.queue_use().count_enqueued(-1);
  return true;
}

/// The wait for it is over; it is not given up yet.
void StreamQueue::fail(Part& part, Error error) noexcept {
  part.why_failed = std::move(error);
  part.over = true;
}

/// Blocks until no copy of what has failed is under way. One may stand behind the stream: where the stream may go, it
/// has been let go before.
void StreamQueue::give_up_failed(Task& task) noexcept {
  for (Part& part : task.parts) {
    if (!part.why_failed) continue;
    Operation& operation = *part.operation;
    about(operation, [&] {
      if (operation.open()) operation.abandon(part.why_failed);
      throw Error(*part.why_failed);
    });
    part.why_failed.reset();
    operation.queue_use().count_enqueued(-1);
  }
}

/// The stream has passed a wait that it runs by itself, unless it comes nowhere any more.
void StreamQueue::pass(Part& part) {
  Operation& operation = *part.operation;
  try {
    if (why_broken_) throw Error(*why_broken_);
    operation.facets().stream_runnable->pass_wait();
  } catch (const std::exception&) {
    const Error error = current_error();
    Queue::keep(error, operation);
    about(operation, [&] { operation.abandon(error); });
  }
  operation.queue_use().count_enqueued(-1);
}

/// The stream stands at the wait: what takes too long, or waits for a rank that has ended, fails. Whether it has.
bool StreamQueue::watch(Task& task) {
  const auto now = Clock::now();
  if (!watched_since_) {
    watched_since_ = now;
    limits_.begin(requests_.settings, now);
  }
  stands_.store(true, std::memory_order_relaxed);
  const auto waits = std::ranges::find_if(task.parts, [](const Part& part) { return !part.over; });
  try {
    const double waited_s = std::chrono::duration<double>(now - *watched_since_).count();
    limits_.check(requests_.settings, requests_.world, *waits->operation, now, waited_s);
    return false;
  } catch (const Error&) {
    for (Part& part : task.parts) {
      // This thread may have been without a core for as long.
      if (!try_to_complete(task, part)) fail(part, current_error());
    }
    return true;
  }
}

/// The stream may go on, and sees whatever has been done for the task; then what has failed is given up.
void StreamQueue::end(Task& task) {
  if (task.holds) release(task.place);
  give_up_failed(task);
  watched_since_.reset();
  taken_.fetch_add(1, std::memory_order_relaxed);
  stands_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  count_ahead(task, -1);
  tasks_.pop_front();
}

/// The stream may go on up to `place`, unless it may go farther already.
void StreamQueue::release(std::uint32_t place) {
  const std::lock_guard lock(mutex_);
  if (!has_come_to(released_.load(), place)) released_.store(place);
}

/// A GPU of which a kernel has failed comes nowhere.
void StreamQueue::check_gpu() noexcept {
  const auto now = Clock::now();
  if (now < next_gpu_check_) return;
  next_gpu_check_ = now + time_between_gpu_checks;
  try {
    requests_.device_memory.check(stream_->device());
  } catch (const Error& error) {
    break_down(error);
  }
}

/// What is enqueued fails, and what will be. In a step, or with none running.
void StreamQueue::break_down(const Error& error) noexcept {
  why_broken_ = error;
  broken_.store(true, std::memory_order_relaxed);
  requests_.progress.activate(*this);
}

}  // namespace partita
