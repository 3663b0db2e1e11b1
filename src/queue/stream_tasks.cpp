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
      for (Part& part : task.parts) task.kind == Kind::start ? start(part) : pass(part);
      return true;
    }
  } else {
    bool over = true;
    for (Part& part : task.parts) over = complete(part) && over;
    if (over) return true;
    if (has_come) watch(task);
  }
  if (!has_come) check_gpu();
  return false;
}

void StreamQueue::start(Part& part) {
  Operation& operation = *part.operation;
  const bool started = !why_broken_ && about(operation, [&] {
    operation.start();
    operation.loop_watch().begin();
  });
  std::vector<Range> marks;
  {
    const std::lock_guard lock(mutex_);
    marks = std::move(part.marks);
    operation.start_has_run();
  }
  if (!started) return;
  for (const auto [first, last] : marks) {
    about(operation, [&] { operation.facets().markable->mark(first, last); });
  }
}

/// Whether the wait for it is over, if need be by an error.
bool StreamQueue::complete(Part& part) {
  if (part.over) return true;
  Operation& operation = *part.operation;
  if (why_broken_) {
    abandon(part, *why_broken_);
    return true;
  }
  try {
    if (operation.open()) {  // a start that failed has opened nothing
      if (!operation.done()) return false;
      operation.close();
    }
  } catch (const std::exception&) {
    abandon(part, current_error());
    return true;
  }
  part.over = true;
  operation.count_enqueued(-1);
  return true;
}

void StreamQueue::abandon(Part& part, const Error& error) noexcept {
  Operation& operation = *part.operation;
  about(operation, [&] {
    if (operation.open()) operation.abandon(error);
    throw Error(error);
  });
  part.over = true;
  operation.count_enqueued(-1);
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
  operation.count_enqueued(-1);
}

/// The stream stands at the wait: what takes too long, or waits for a rank that has ended, is given up.
void StreamQueue::watch(Task& task) {
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
  } catch (const Error& error) {
    for (Part& part : task.parts) {
      if (!complete(part)) abandon(part, error);  // this thread may have been without a core for as long
    }
  }
}

/// The stream may go on, and sees whatever has been done for the task.
void StreamQueue::end(const Task& task) {
  if (task.holds) released_.store(task.place);
  watched_since_.reset();
  taken_.fetch_add(1, std::memory_order_relaxed);
  stands_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  tasks_.pop_front();
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
