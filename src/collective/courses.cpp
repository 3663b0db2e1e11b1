#include "collective/courses.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita::collective {
namespace {

/// In host memory a thread that walks a course copies and reduces by itself, and whoever marks a partition of it
/// meanwhile leaves that to it. So partitions share one only up to here: some microseconds' work.
constexpr std::int64_t bytes_side_by_side = 64 * 1024;

int place_of_mark(const Schedule& schedule) {
  const auto found = std::ranges::find(schedule.actions, Deed::mark, &Action::deed);
  return found == schedule.actions.end() ? Writer::nothing : static_cast<int>(found - schedule.actions.begin());
}

/// How many neighbours share a course. In GPU memory all is only begun.
int neighbours_of_a_course(const Schedule& schedule, bool on_gpu) {
  if (on_gpu) return most_side_by_side;
  std::int64_t most_bytes = 1;
  for (const Action& action : schedule.actions) {
    most_bytes = std::max({most_bytes, action.from.bytes, action.to.bytes});
  }
  const auto fit = std::clamp<std::int64_t>(bytes_side_by_side / most_bytes, 1, most_side_by_side);
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(fit)));
}

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
      memory_(memory),
      gpu_(gpu),
      legs_(legs),
      mark_(place_of_mark(schedule)),
      side_by_side_(neighbours_of_a_course(schedule, gpu != nullptr)),
      marked_(arguments.partitions),
      reads_under_results_(reads_under_results(arguments, schedule)) {
  for (const Action& action : schedule.actions) is_one_piece_.push_back(is_one_piece(action));
  for (std::int64_t first = 0; first < arguments.partitions; first += side_by_side_) {
    courses_.emplace_back(link::Range{first, std::min<std::int64_t>(first + side_by_side_, arguments.partitions)},
                          schedule);
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
  unread_.store(reads_under_results_ * arguments_.partitions, std::memory_order_relaxed);
}

std::int64_t Courses::mark(link::Range range) {
  return marked_.add_each(range, [this](const PartitionSet::Added& step) {
    for (std::int64_t p = step.added.begin; p < step.added.end;) {
      Course& course = course_of(p);
      // Whoever walks it now looks once more.
      if (course.calls.fetch_add(1, std::memory_order_acq_rel) == 0) walk(course, Look::at_marked);
      p = course.partitions.end;
    }
  });
}

bool Courses::walk_all() {
  bool moved = false;
  for (Course& course : courses_) moved |= walk_if_free(course);
  return moved;
}

bool Courses::is_over(std::int64_t partition) const {
  const Course& course = course_of(partition);
  return (course.over.load(std::memory_order_acquire) >> (partition - course.partitions.begin) & 1) != 0;
}

bool Courses::all_are_over() const {
  return std::ranges::all_of(courses_, [](const Course& course) { return course.is_over(); });
}

/// The calling thread has taken the course: its calls were none.
bool Courses::walk(Course& course, Look look) {
  bool moved = false;
  int seen = 0;
  do {
    seen = course.calls.load(std::memory_order_acquire);
    moved |= walk_on(course, std::exchange(look, Look::at_marked));  // those that came meanwhile have marked
  } while (!course.calls.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
  return moved;
}

bool Courses::walk_if_free(Course& course) {
  int none = 0;
  if (course.is_over() || !course.calls.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return false;
  return walk(course, Look::at_all);
}

/// An action comes after those that it waits for, so one way through the schedule does all that can be done.
bool Courses::walk_on(Course& course, Look look) {
  bool moved = false;
  try {
    course.looked_at = look == Look::at_all ? course.all() : newly_marked(course);
    moved = end_running(course);
    const std::size_t running = course.running.size();
    const int actions = static_cast<int>(schedule_.actions.size());
    for (int action = 0; action < actions && owner_.may_go_on(); ++action) moved |= go(course, action);
    if (course.running.size() > running) gpu_->flush();
  } catch (const std::exception&) {
    owner_.could_not_go_on();
  }
  if (moved) course.over.store(course.walk.over(), std::memory_order_release);
  return moved;
}

/// Ends what the GPU has ended of it; returns whether there was something.
bool Courses::end_running(Course& course) {
  const auto has_ended = [this](const Running& running) { return gpu_->ended(running.ticket); };
  bool moved = false;
  for (auto found = course.running.begin();; moved = true) {
    found = std::ranges::find_if(course.running, has_ended);
    if (found == course.running.end()) return moved;
    const int action = found->action;
    Bits partitions = 0;
    std::erase_if(course.running, [&](const Running& running) {
      if (running.action != action || !has_ended(running)) return false;
      partitions |= running.partitions;
      return true;
    });
    SendLeg* const leg = legs_.sends[static_cast<std::size_t>(action)];
    for_each_run(partitions, [&](link::Range bits) {
      if (leg != nullptr) leg->leave(course.run(bits));
      end(course, action, bits);
    });
  }
}

void Courses::end(Course& course, int action, link::Range bits) {
  course.walk.end(action, bits_of(bits));
  actions_done_.fetch_add(static_cast<std::uint64_t>(bits.size()), std::memory_order_relaxed);
}

/// Does `action` in all partitions that are ready for it; returns whether there was one.
bool Courses::go(Course& course, int action) {
  const Bits ready = this->ready(course, action);
  if (ready == 0) return false;
  course.walk.begin(action, ready);
  for_each_run(ready, [&](link::Range bits) {
    if (gpu_ == nullptr) {
      act(action, course.run(bits));
    } else if (const auto ticket = begin_on_gpu(action, course.run(bits))) {
      return course.running.push_back({action, bits_of(bits), *ticket});
    }
    end(course, action, bits);
  });
  return true;
}

/// Where it has not begun and nothing keeps it back.
Bits Courses::ready(const Course& course, int action) const {
  const auto at = static_cast<std::size_t>(action);
  const Bits ready = is_on_stream(action) ? course.walk.ready_behind(action) : course.walk.ready(action);
  if (ready == 0) return 0;
  switch (schedule_.actions[at].deed) {
    case Deed::mark:
      return ready & marked(course);
    case Deed::receive:
      return arrived(course, *legs_.receives[at], ready & course.looked_at);
    case Deed::copy:
      return may_write(schedule_.actions[at].to) ? ready : 0;
    case Deed::send:
    case Deed::reduce:
      break;
  }
  return ready;
}

/// Whether a GPU's stream does it, behind all that was begun before.
bool Courses::is_on_stream(int action) const {
  if (gpu_ == nullptr) return false;
  const auto at = static_cast<std::size_t>(action);
  const Deed deed = schedule_.actions[at].deed;
  const SendLeg* const leg = legs_.sends[at];
  return deed == Deed::copy || deed == Deed::reduce || (leg != nullptr && leg->packs());
}

Bits Courses::marked(const Course& course) const {
  const std::int64_t first = course.partitions.begin;
  return marked_.word(first) >> (first % PartitionSet::bits) & course.all();
}

/// Those that were marked since the last walk.
Bits Courses::newly_marked(const Course& course) const {
  return mark_ == Writer::nothing ? 0 : course.walk.ready(mark_) & marked(course);
}

Bits Courses::arrived(const Course& course, const ReceiveLeg& leg, Bits wanted) const {
  Bits arrived = 0;
  for_each_run(wanted, [&](link::Range bits) {
    const std::int64_t first = course.partitions.begin;
    for (link::Range left = course.run(bits); left.size() > 0;) {
      const std::int64_t missing = leg.first_missing(left);
      if (missing > left.begin) arrived |= bits_of({left.begin - first, missing - first});
      left.begin = missing + 1;
    }
  });
  return arrived;
}

void Courses::act(int place, link::Range run) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  switch (action.deed) {
    case Deed::mark:
      break;
    case Deed::receive:
      legs_.receives[at]->take(run);
      break;
    case Deed::send:
      legs_.sends[at]->send(run);
      break;
    case Deed::copy:
      for_each_piece(place, run, [this](const Region& from, const Region& to, int partition) {
        memory_.copy(from, to, partition);
      });
      count_reads(action.from, run.size());
      break;
    case Deed::reduce:
      for_each_piece(place, run, [this](const Region& from, const Region& to, int partition) {
        arguments_.reduction.apply(memory_.operand(from, partition), memory_.operand(to, partition), from.bytes,
                                   arguments_.problem.unit_bytes);
      });
      count_reads(action.from, run.size());
      break;
  }
}

/// The ticket of what was begun; none where there was nothing, so that the action is done.
std::optional<GpuWork::Ticket> Courses::begin_on_gpu(int place, link::Range run) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  std::optional<GpuWork::Ticket> ticket;
  const auto copy = [&](const Move& move) { ticket = gpu_->copy(move); };
  switch (action.deed) {
    case Deed::mark:
      break;
    case Deed::receive:
      legs_.receives[at]->note(run);
      if (legs_.receives[at]->unpacks()) legs_.receives[at]->unpacking(run, copy);
      break;
    case Deed::send:
      if (!legs_.sends[at]->packs()) {
        legs_.sends[at]->leave(run);
      } else {
        legs_.sends[at]->packing(run, copy);
      }
      break;
    case Deed::copy:
      for_each_piece(place, run, [&](const Region& from, const Region& to, int partition) {
        copy({memory_.spot(to, partition), memory_.spot(from, partition), from.bytes});
      });
      count_reads(action.from, run.size());  // what writes there comes behind it on the stream
      break;
    case Deed::reduce:
      for_each_piece(place, run, [&](const Region& from, const Region& to, int partition) {
        ticket = gpu_->reduce(memory_.gapless(from, partition), memory_.gapless(to, partition), from.bytes);
      });
      count_reads(action.from, run.size());
      break;
  }
  return ticket;
}

/// Calls `use` with the regions of a copy or a reduction that can be done at once, and the first partition of these:
/// all of `run`, or one after the other.
template <class Use>
void Courses::for_each_piece(int place, link::Range run, Use use) const {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  const std::int64_t length = is_one_piece_[at] ? run.size() : 1;
  for (std::int64_t p = run.begin; p < run.end; p += length) {
    use(action.from.times(length), action.to.times(length), static_cast<int>(p));
  }
}

/// Whether a copy or reduction is one of all bytes of a run. A GPU that moves from gaps to gaps has room between for
/// one partition.
bool Courses::is_one_piece(const Action& action) const {
  if (action.deed != Deed::copy && action.deed != Deed::reduce) return false;
  const auto has_gaps = [this](const Region& region) { return memory_.gapless(region, 0) == nullptr; };
  return memory_.is_whole(action.from) && memory_.is_whole(action.to) &&
         (gpu_ == nullptr || !has_gaps(action.from) || !has_gaps(action.to));
}

/// Whether no partition will read there what is now to be written over.
bool Courses::may_write(const Region& region) const {
  return region.buffer != Buffer::received || unread_.load(std::memory_order_acquire) == 0;
}

void Courses::count_reads(const Region& region, std::int64_t partitions) {
  if (reads_under_results_ > 0 && region.buffer == Buffer::sent) {
    unread_.fetch_sub(partitions, std::memory_order_release);
  }
}

}  // namespace partita::collective
