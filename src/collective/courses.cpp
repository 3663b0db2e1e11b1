#include "collective/courses.hpp"

#include <algorithm>

namespace partita::collective {
namespace {

/// How often a partition reads what the result of another one lies over: the shares of a reduce_scatter in place whose
/// blocks differ.
std::int64_t reads_under_results(const CollectiveArguments& arguments, const Schedule& schedule) {
  const std::vector<std::int64_t>& blocks = arguments.problem.scattered;
  const bool differ = std::ranges::adjacent_find(blocks, std::ranges::not_equal_to()) != blocks.end();
  if (!arguments.problem.in_place || !differ || arguments.partitions == 1) return 0;
  return std::ranges::count_if(schedule.actions, [](const Action& action) {
    return (action.deed == Deed::copy || action.deed == Deed::reduce) && action.from.buffer == Buffer::sent;
  });
}

}  // namespace

Courses::Courses(Owner& owner, const CollectiveArguments& arguments, const Schedule& schedule,
                 const CollectiveMemory& memory, GpuWork* gpu, const LegsByAction& legs)
    : owner_(owner),
      arguments_(arguments),
      schedule_(schedule),
      order_(schedule),
      memory_(memory),
      gpu_(gpu),
      legs_(legs),
      reads_under_results_(reads_under_results(arguments, schedule)) {
  for (int p = 0; p < arguments.partitions; ++p) courses_.emplace_back(order_);
}

void Courses::restart(bool marked) {
  for (Course& course : courses_) {
    course.begun.clear();
    course.running.clear();
    course.walk.restart([&](int action) { course.begun.push_back(action); });
    course.marked.store(marked, std::memory_order_relaxed);
    course.over.store(course.walk.is_over(), std::memory_order_relaxed);
  }
  unread_.store(reads_under_results_ * arguments_.partitions, std::memory_order_relaxed);
}

bool Courses::mark(std::int64_t partition) {
  Course& course = this->course(partition);
  if (course.marked.exchange(true, std::memory_order_acq_rel)) return false;
  // Whoever walks it now looks once more.
  if (course.calls.fetch_add(1, std::memory_order_acq_rel) == 0) walk(static_cast<int>(partition), course);
  return true;
}

bool Courses::any_is_marked() const {
  return std::ranges::any_of(courses_, [](const Course& course) { return course.marked.load(); });
}

bool Courses::all_are_over() const {
  return std::ranges::all_of(courses_, [](const Course& course) { return course.over.load(); });
}

/// The calling thread has taken the course: its calls were none.
bool Courses::walk(int partition, Course& course) {
  bool moved = false;
  int seen = 0;
  do {
    seen = course.calls.load(std::memory_order_acquire);
    moved |= walk_on(partition, course);
  } while (!course.calls.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
  return moved;
}

bool Courses::walk_if_free(std::int64_t partition) {
  Course& course = this->course(partition);
  int none = 0;
  if (course.over.load(std::memory_order_acquire) ||
      !course.calls.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    return false;
  }
  return walk(static_cast<int>(partition), course);
}

bool Courses::walk_all() {
  bool moved = false;
  for (std::size_t p = 0; p < courses_.size(); ++p) moved |= walk_if_free(static_cast<std::int64_t>(p));
  return moved;
}

bool Courses::walk_on(int partition, Course& course) {
  bool moved = false;
  bool runs_more = false;
  const auto begin = [&course](int other) { course.begun.push_back(other); };
  try {
    moved = end_running(partition, course);
    for (std::size_t i = 0; i < course.begun.size() && owner_.may_go_on();) {
      const int action = course.begun[i];
      const Attempt attempt = try_action(partition, course, action);
      if (attempt.result == Result::waits) {
        ++i;
        continue;
      }
      moved = true;
      course.begun[i] = course.begun.back();
      course.begun.pop_back();
      if (attempt.result == Result::runs) {
        runs_more = true;
        course.running.push_back({action, attempt.ticket});
        course.walk.release(action, [this](int other) { return is_on_stream(other); }, begin);
        continue;
      }
      actions_done_.fetch_add(1, std::memory_order_relaxed);
      course.walk.finish(action, begin);
    }
    if (runs_more) gpu_->flush();
  } catch (const std::exception&) {
    owner_.could_not_go_on();
  }
  if (course.walk.is_over()) course.over.store(true, std::memory_order_release);
  return moved;
}

/// Finishes what the GPU has ended of it; returns whether there was something.
bool Courses::end_running(int partition, Course& course) {
  bool moved = false;
  for (std::size_t i = 0; i < course.running.size();) {
    const auto [action, ticket] = course.running[i];
    if (!gpu_->ended(ticket)) {
      ++i;
      continue;
    }
    moved = true;
    course.running[i] = course.running.back();
    course.running.pop_back();
    if (SendLeg* const leg = legs_.sends[static_cast<std::size_t>(action)]) leg->leave(partition);
    actions_done_.fetch_add(1, std::memory_order_relaxed);
    // The others were released when it was begun.
    course.walk.release(
        action, [this](int other) { return !is_on_stream(other); },
        [&course](int other) { course.begun.push_back(other); });
    course.walk.end();
  }
  return moved;
}

/// Whether the stream does it, behind all that was begun before.
bool Courses::is_on_stream(int place) const {
  const auto at = static_cast<std::size_t>(place);
  const Deed deed = schedule_.actions[at].deed;
  return deed == Deed::copy || deed == Deed::reduce || (deed == Deed::send && legs_.sends[at]->packs());
}

Courses::Attempt Courses::try_action(int partition, Course& course, int place) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  if (action.deed == Deed::mark) {
    return {course.marked.load(std::memory_order_acquire) ? Result::done : Result::waits};
  }
  if (gpu_ != nullptr) return try_on_gpu(partition, place);
  switch (action.deed) {
    case Deed::receive:
      return {legs_.receives[at]->take(partition) ? Result::done : Result::waits};
    case Deed::send:
      legs_.sends[at]->send(partition);
      break;
    case Deed::copy:
      if (!may_write(action.to)) return {Result::waits};
      memory_.copy(action.from, action.to, partition);
      count_read(action.from);
      break;
    case Deed::reduce:
      arguments_.reduction.apply(memory_.operand(action.from, partition), memory_.operand(action.to, partition),
                                 action.from.bytes, arguments_.problem.unit_bytes);
      count_read(action.from);
      break;
    case Deed::mark:
      break;
  }
  return {Result::done};
}

/// All but the mark.
Courses::Attempt Courses::try_on_gpu(int partition, int place) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  switch (action.deed) {
    case Deed::receive:
      if (!legs_.receives[at]->has_arrived(partition)) return {Result::waits};
      if (const auto move = legs_.receives[at]->unpacking(partition)) return {Result::runs, gpu_->copy(*move)};
      break;
    case Deed::send:
      if (const auto move = legs_.sends[at]->packing(partition)) return {Result::runs, gpu_->copy(*move)};
      legs_.sends[at]->leave(partition);
      break;
    case Deed::copy: {
      if (!may_write(action.to)) return {Result::waits};
      const Attempt begun{Result::runs, gpu_->copy({memory_.spot(action.to, partition),
                                                    memory_.spot(action.from, partition), action.from.bytes})};
      count_read(action.from);  // what writes there comes behind it on the stream
      return begun;
    }
    case Deed::reduce: {
      const Attempt begun{Result::runs, gpu_->reduce(memory_.gapless(action.from, partition),
                                                     memory_.gapless(action.to, partition), action.from.bytes)};
      count_read(action.from);
      return begun;
    }
    case Deed::mark:
      break;
  }
  return {Result::done};
}

/// Whether no partition will read there what is now to be written over.
bool Courses::may_write(const Region& region) const {
  return region.buffer != Buffer::received || unread_.load(std::memory_order_acquire) == 0;
}

void Courses::count_read(const Region& region) {
  if (reads_under_results_ > 0 && region.buffer == Buffer::sent) unread_.fetch_sub(1, std::memory_order_release);
}

}  // namespace partita::collective
