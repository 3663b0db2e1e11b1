// The ways of a collective's partitions through the schedule of this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "collective/walk.hpp"
#include "core/epoch.hpp"
#include "transfer/partition_set.hpp"

namespace partita::collective {

/// How many neighbouring partitions had better share a course: a power of two. In host memory (not `on_gpu`) all that
/// is done for them by one thread is little; in GPU memory, where it only begins, each run is.
int side_by_side(const Schedule& schedule, bool on_gpu);

/// Walks the partitions: does what the schedule lets be done, with marks, and with what has come of others. A few
/// neighbours share a course, which one thread walks at a time. Those of them in which the same action is possible when
/// it comes by go as one run: one transfer, one copy, one launch on a GPU. None waits for another one. Any thread, but
/// for restart().
class Courses {
 public:
  /// Whose courses they are.
  class Owner {
   public:
    /// False: no other action begins.
    virtual bool may_go_on() const noexcept = 0;
    /// An action has failed; called while its exception is handled.
    virtual void could_not_go_on() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  /// Does the actions, which are named by their places in the schedule. Any thread, with different partitions. Throws
  /// Error.
  class Doer {
   public:
    /// A number of what was begun.
    using Ticket = Epoch;

    /// Whether one stream does the action, behind all that was begun before.
    virtual bool is_on_stream(int action) const = 0;
    /// Whether what other partitions do lets it begin.
    virtual bool may_begin(int action) const = 0;
    /// The first of neighbouring partitions for which a receive has not arrived by now, or partitions.end.
    virtual std::int64_t first_missing(int action, link::Range partitions) const = 0;
    /// Does it in a run, of which a receive has arrived. A ticket: it has only begun, and ends by itself.
    virtual std::optional<Ticket> act(int action, link::Range run) = 0;
    /// What was begun before tells of its end from now on. After each begin, at some time.
    virtual void flush() = 0;
    virtual bool ended(Ticket ticket) const = 0;
    /// What was begun in the run, or in a part of one, has ended.
    virtual void finish(int action, link::Range run) = 0;

   protected:
    ~Doer() = default;
  };

  /// Keeps references to `owner`, `schedule` and `doer`. `side_by_side`: partitions of a course, a power of two.
  Courses(Owner& owner, const Schedule& schedule, int partitions, int side_by_side, Doer& doer);

  /// A new epoch; `marked`: no marks are to come. Nobody else calls meanwhile.
  void restart(bool marked);

  /// Marks partitions up to the first of `range` that was marked before, which it returns, or to the end; walks them.
  std::int64_t mark(link::Range range);
  bool is_marked(std::int64_t partition) const { return marked_.contains(partition); }
  bool any_is_marked() const { return marked_.first_of(all()) < all().end; }
  /// Walks all partitions that are not over, as the progress engine does. Who walks some of them already looks once
  /// more for what has arrived of them. Returns whether something was done, or is to be looked at again soon, which is
  /// said once in a walk of another thread's.
  bool walk_all();

  bool is_over(std::int64_t partition) const;
  bool all_are_over() const;
  /// How many actions have ended, of all partitions and epochs.
  std::uint64_t actions_done() const { return actions_done_.load(std::memory_order_relaxed); }

 private:
  /// The partitions that a walk asks about what has arrived: a mark asks for its own, so that it costs no more in a
  /// course of many.
  enum class Look : std::uint8_t { at_marked, at_all };
  /// An action that has begun, and ends by itself.
  struct Running {
    int action;
    Bits partitions;
    Doer::Ticket ticket;
  };
  /// Partitions that one thread walks at a time.
  struct Course {
    Course(link::Range partitions_of_it, const Schedule& schedule) : partitions(partitions_of_it), walk(schedule) {}
    Bits all() const { return first_bits(partitions.size()); }
    bool is_over() const { return over.load(std::memory_order_acquire) == all(); }
    link::Range run(link::Range bits) const { return {partitions.begin + bits.begin, partitions.begin + bits.end}; }
    const link::Range partitions;
    Walk walk;
    Bits marked = 0;     ///< as this walk has found it
    Bits looked_at = 0;  ///< in this walk
    std::vector<Running> running;
    std::atomic<int> calls{0};              ///< marks that want it walked, and engine_call; the first of them walks
    std::atomic<bool> look_is_owed{false};  ///< to the engine, which has come again since this walk looked for it
    std::atomic<Bits> over{0};
  };

  link::Range all() const { return {0, partitions_}; }
  const Course& course_of(std::int64_t partition) const {
    return courses_[static_cast<std::size_t>(partition / side_by_side_)];
  }
  Course& course_of(std::int64_t partition) { return courses_[static_cast<std::size_t>(partition / side_by_side_)]; }
  bool walk(Course& course);
  bool walk_for_engine(Course& course);
  bool walk_on(Course& course, Look look);
  bool end_running(Course& course);
  void end(Course& course, int action, link::Range bits);
  bool go(Course& course, int action);
  Bits possible(const Course& course, int action) const;
  Bits marked(const Course& course) const;
  Bits newly_marked(const Course& course) const;
  Bits arrived(const Course& course, int action, Bits wanted) const;

  Owner& owner_;
  const Schedule& schedule_;
  const int partitions_;
  const int side_by_side_;
  Doer& doer_;
  const int mark_;  ///< its place in the schedule, or Writer::nothing
  PartitionSet marked_;
  std::deque<Course> courses_;
  std::atomic<std::uint64_t> actions_done_{0};
};

}  // namespace partita::collective
