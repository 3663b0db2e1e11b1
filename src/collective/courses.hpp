// The ways of a collective's partitions through the schedule of this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "collective/collective_arguments.hpp"
#include "collective/gpu_work.hpp"
#include "collective/leg.hpp"
#include "collective/memory.hpp"
#include "collective/walk.hpp"
#include "transfer/partition_set.hpp"

namespace partita::collective {

/// The legs of a schedule, by action; null where it is none, or empty.
struct LegsByAction {
  explicit LegsByAction(std::size_t actions) : sends(actions), receives(actions) {}
  std::vector<SendLeg*> sends;
  std::vector<ReceiveLeg*> receives;
};

/// Walks the partitions: does what the schedule lets be done, with marks, and with what has come of others. A few
/// neighbours share a course, which one thread walks at a time. Those of them that are ready for the same action when
/// it comes by go as one run: one transfer, one reduction, one launch. None waits for another one. Any thread, but for
/// restart().
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

  /// `gpu`: null in host memory. Keeps references to all of them.
  Courses(Owner& owner, const CollectiveArguments& arguments, const Schedule& schedule, const CollectiveMemory& memory,
          GpuWork* gpu, const LegsByAction& legs);

  /// A new epoch; `marked`: no marks are to come. Nobody else calls meanwhile.
  void restart(bool marked);

  /// Marks partitions up to the first of `range` that was marked before, which it returns, or to the end; walks them.
  std::int64_t mark(link::Range range);
  bool is_marked(std::int64_t partition) const { return marked_.contains(partition); }
  bool any_is_marked() const { return marked_.first_of(all()) < all().end; }
  /// Walks all partitions, but for those that a thread walks, or that are over; returns whether something was done.
  bool walk_all();

  bool is_over(std::int64_t partition) const;
  bool all_are_over() const;
  /// Of all partitions and epochs.
  std::uint64_t actions_done() const { return actions_done_.load(std::memory_order_relaxed); }

 private:
  /// Of which partitions a walk asks what has arrived: a mark asks for its own, so that it costs no more in a course of
  /// many.
  enum class Look : std::uint8_t { at_marked, at_all };
  /// An action that the GPU does.
  struct Running {
    int action;
    Bits partitions;
    GpuWork::Ticket ticket;
  };
  /// Partitions that one thread walks at a time.
  struct Course {
    Course(link::Range partitions_of_it, const Schedule& schedule) : partitions(partitions_of_it), walk(schedule) {}
    Bits all() const { return first_bits(partitions.size()); }
    bool is_over() const { return over.load(std::memory_order_acquire) == all(); }
    link::Range run(link::Range bits) const { return {partitions.begin + bits.begin, partitions.begin + bits.end}; }
    const link::Range partitions;
    Walk walk;
    Bits looked_at = 0;  ///< in this walk
    std::vector<Running> running;
    std::atomic<int> calls{0};  ///< threads that want it walked; the first of them walks
    std::atomic<Bits> over{0};
  };

  link::Range all() const { return {0, arguments_.partitions}; }
  const Course& course_of(std::int64_t partition) const {
    return courses_[static_cast<std::size_t>(partition / side_by_side_)];
  }
  Course& course_of(std::int64_t partition) { return courses_[static_cast<std::size_t>(partition / side_by_side_)]; }
  /// Does whatever of it can be done now; returns whether it did something.
  bool walk(Course& course, Look look);
  bool walk_if_free(Course& course);
  bool walk_on(Course& course, Look look);
  bool end_running(Course& course);
  void end(Course& course, int action, link::Range bits);
  bool go(Course& course, int action);
  Bits ready(const Course& course, int action) const;
  bool is_on_stream(int action) const;
  Bits marked(const Course& course) const;
  Bits newly_marked(const Course& course) const;
  Bits arrived(const Course& course, const ReceiveLeg& leg, Bits wanted) const;
  void act(int action, link::Range run);
  std::optional<GpuWork::Ticket> begin_on_gpu(int action, link::Range run);
  template <class Use>
  void for_each_piece(int action, link::Range run, Use use) const;
  bool is_one_piece(const Action& action) const;
  bool may_write(const Region& region) const;
  void count_reads(const Region& region, std::int64_t partitions);

  Owner& owner_;
  const CollectiveArguments& arguments_;
  const Schedule& schedule_;
  const CollectiveMemory& memory_;
  GpuWork* const gpu_;
  const LegsByAction& legs_;
  const int mark_;                  ///< its place in the schedule, or Writer::nothing
  const int side_by_side_;          ///< partitions of a course: a power of two
  std::vector<bool> is_one_piece_;  ///< by action
  PartitionSet marked_;
  std::deque<Course> courses_;
  /// So many times a partition reads what the results of others are written over; see Problem::in_place.
  const std::int64_t reads_under_results_;
  std::atomic<std::int64_t> unread_{0};  ///< of all partitions, in the open epoch
  std::atomic<std::uint64_t> actions_done_{0};
};

}  // namespace partita::collective
