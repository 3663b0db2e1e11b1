#include "collective/courses.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace partita::collective {
namespace {

/// In host memory a thread that walks a course copies and reduces by itself, and whoever marks a partition of it
/// meanwhile leaves that to it. So all that is to be done for its partitions is some microseconds' work. That of sends
/// and receives is counted in full, though what they cost the thread is known only once the link is: over link direct
/// who sends copies, and who receives does where it lands apart.
constexpr std::int64_t most_work_bytes = 64 * 1024;

/// In GPU memory a walk only begins. But a run is over as a whole, and leaves then, while the GPU does the next one: it
/// had better be small beside all data, and large beside its launch, its word and its transfer. These take some 10 us
/// of a host, in which a GPU moves 4 MiB to another one.
constexpr std::int64_t most_run_bytes = 4 * 1024 * 1024;

/// The call of the progress engine, beside those of marks.
constexpr int engine_call = 1 << 30;

int place_of_mark(const Schedule& schedule) {
  const auto found = std::ranges::find(schedule.actions, Deed::mark, &Action::deed);
  return found == schedule.actions.end() ? Writer::nothing : static_cast<int>(found - schedule.actions.begin());
}

}  // namespace

int side_by_side(const Schedule& schedule, bool on_gpu) {
  std::int64_t all_bytes = 0;
  std::int64_t most_bytes = 0;
  for (const Action& action : schedule.actions) {
    const std::int64_t bytes = std::max(action.from.bytes, action.to.bytes);
    all_bytes += bytes;
    most_bytes = std::max(most_bytes, bytes);
  }
  const std::int64_t fit = on_gpu ? most_run_bytes / std::max<std::int64_t>(most_bytes, 1)
                                  : most_work_bytes / std::max<std::int64_t>(all_bytes, 1);
  const auto neighbours = std::clamp<std::int64_t>(fit, 1, most_side_by_side);
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(neighbours)));
}

Courses::Courses(Owner& owner, const Schedule& schedule, int partitions, int side_by_side, Doer& doer)
    : owner_(owner),
      schedule_(schedule),
      partitions_(partitions),
      side_by_side_(side_by_side),
      doer_(doer),
      mark_(place_of_mark(schedule)),
      marked_(partitions) {
  for (std::int64_t first = 0; first < partitions; first += side_by_side_) {
    courses_.emplace_back(link::Range{first, std::min<std::int64_t>(first + side_by_side_, partitions)}, schedule);
  }
}

void Courses::restart(bool marked) {
  marked_.clear();
  if (marked) marked_.add_each(all(), [](const PartitionSet::Added&) {});
  for (Course& course : courses_) {
    course.running.clear();
    course.walk.restart(course.all());
    course.over.store(course.walk.over(), std::memory_order_relaxed);
  }
}

std::int64_t Courses::mark(link::Range range) {
  return marked_.add_each(range, [this](const PartitionSet::Added& step) {
    for (std::int64_t p = step.added.begin; p < step.added.end;) {
      Course& course = course_of(p);
      // Whoever walks it now looks once more.
      if (course.calls.fetch_add(1, std::memory_order_acq_rel) == 0) walk(course);
      p = course.partitions.end;
    }
  });
}

bool Courses::walk_all() {
  bool moved = false;
  for (Course& course : courses_) moved |= walk_for_engine(course);
  return moved;
}

bool Courses::is_over(std::int64_t partition) const {
  const Course& course = course_of(partition);
  return (course.over.load(std::memory_order_acquire) >> (partition - course.partitions.begin) & 1) != 0;
}

bool Courses::all_are_over() const {
  return std::ranges::all_of(courses_, [](const Course& course) { return course.is_over(); });
}

/// Does whatever of it can be done now; returns whether it did something. The calling thread has taken the course: its
/// calls were none.
bool Courses::walk(Course& course) {
  bool moved = false;
  bool engine_has_come = false;
  int seen = 0;
  do {
    seen = course.calls.load(std::memory_order_acquire);
    const bool engine_came_before = std::exchange(engine_has_come, (seen & engine_call) != 0);
    // Those that came meanwhile have marked, but for the engine. It is served once: a mark does not stay for it.
    moved |= walk_on(course, engine_has_come && !engine_came_before ? Look::at_all : Look::at_marked);
  } while (!course.calls.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
  return moved;
}

bool Courses::walk_for_engine(Course& course) {
  if (course.is_over()) return false;
  const int before = course.calls.fetch_or(engine_call, std::memory_order_acq_rel);
  if (before == 0) {
    course.look_is_owed.store(false, std::memory_order_relaxed);
    return walk(course);
  }
  // Another thread walks it and looks for the engine; or may have looked already, before something arrived. Then the
  // engine looks again soon, but does not keep doing so for as long as that thread takes.
  const bool is_owed = (before & engine_call) != 0;
  return !course.look_is_owed.exchange(is_owed, std::memory_order_relaxed) && is_owed;
}

/// An action comes after those that it waits for, so one way through the schedule does all that can be done.
bool Courses::walk_on(Course& course, Look look) {
  bool moved = false;
  try {
    // Read once: what is marked behind this has not been looked at, and is the next walk's.
    course.marked = marked(course);
    course.looked_at = look == Look::at_all ? course.all() : newly_marked(course);
    moved = end_running(course);
    const std::size_t running = course.running.size();
    const int actions = static_cast<int>(schedule_.actions.size());
    for (int action = 0; action < actions && owner_.may_go_on(); ++action) moved |= go(course, action);
    if (course.running.size() > running) doer_.flush();
  } catch (const std::exception&) {
    owner_.could_not_go_on();
  }
  course.over.store(course.walk.over(), std::memory_order_release);
  return moved;
}

/// Ends what has ended by itself; returns whether there was something.
bool Courses::end_running(Course& course) {
  const auto has_ended = [this](const Running& running) { return doer_.ended(running.ticket); };
  bool moved = false;
  auto found = std::ranges::find_if(course.running, has_ended);
  while (found != course.running.end()) {
    // All that has ended of one action goes together, in whichever runs it began.
    const int action = found->action;
    Bits partitions = 0;
    std::erase_if(course.running, [&](const Running& running) {
      if (running.action != action || !has_ended(running)) return false;
      partitions |= running.partitions;
      return true;
    });
    for_each_run(partitions, [&](link::Range bits) {
      doer_.finish(action, course.run(bits));
      end(course, action, bits);
    });
    moved = true;
    found = std::ranges::find_if(course.running, has_ended);
  }
  return moved;
}

void Courses::end(Course& course, int action, link::Range bits) {
  course.walk.end(action, bits_of(bits));
  actions_done_.fetch_add(static_cast<std::uint64_t>(bits.size()), std::memory_order_relaxed);
}

/// Does `action` in all partitions in which it is possible; returns whether there was one.
bool Courses::go(Course& course, int action) {
  const Bits possible = this->possible(course, action);
  if (possible == 0) return false;
  course.walk.begin(action, possible);
  for_each_run(possible, [&](link::Range bits) {
    if (const auto ticket = doer_.act(action, course.run(bits))) {
      return course.running.push_back({action, bits_of(bits), *ticket});
    }
    end(course, action, bits);
  });
  return true;
}

/// Where it has not begun and nothing keeps it back.
Bits Courses::possible(const Course& course, int action) const {
  if (course.walk.has_begun(action)) return 0;
  const Bits possible = doer_.is_on_stream(action) ? course.walk.possible_behind(action) : course.walk.possible(action);
  if (possible == 0) return 0;
  switch (schedule_.actions[static_cast<std::size_t>(action)].deed) {
    case Deed::mark:
      return possible & course.marked;
    case Deed::receive:
      return arrived(course, action, possible & course.looked_at);
    case Deed::copy:
    case Deed::send:
    case Deed::reduce:
      break;
  }
  return doer_.may_begin(action) ? possible : 0;
}

Bits Courses::marked(const Course& course) const {
  const std::int64_t first = course.partitions.begin;
  return marked_.word(first) >> (first % PartitionSet::bits) & course.all();
}

/// The partitions of the course that were marked since the last walk.
Bits Courses::newly_marked(const Course& course) const {
  return mark_ == Writer::nothing ? 0 : course.walk.possible(mark_) & course.marked;
}

Bits Courses::arrived(const Course& course, int action, Bits wanted) const {
  Bits arrived = 0;
  for_each_run(wanted, [&](link::Range bits) {
    const std::int64_t first = course.partitions.begin;
    for (link::Range left = course.run(bits); left.size() > 0;) {
      const std::int64_t missing = doer_.first_missing(action, left);
      if (missing > left.begin) arrived |= bits_of({left.begin - first, missing - first});
      left.begin = missing + 1;
    }
  });
  return arrived;
}

}  // namespace partita::collective
