// The ways of a collective's partitions through the schedule of this rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "collective/collective_arguments.hpp"
#include "collective/gpu_work.hpp"
#include "collective/leg.hpp"
#include "collective/memory.hpp"
#include "collective/schedule.hpp"

namespace partita::collective {

/// The legs of a schedule, by action; null where it is none, or empty.
struct LegsByAction {
  explicit LegsByAction(std::size_t actions) : sends(actions), receives(actions) {}
  std::vector<SendLeg*> sends;
  std::vector<ReceiveLeg*> receives;
};

/// Walks the partitions: does what the schedule lets be done, with marks, and with what has come of others. Any thread,
/// but for restart().
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

  /// Marks `partition` and walks it. False, without effect, if it was marked before.
  bool mark(std::int64_t partition);
  bool is_marked(std::int64_t partition) const { return course(partition).marked.load(std::memory_order_acquire); }
  bool any_is_marked() const;
  /// Walks `partition`, unless a thread does, or it is over; returns whether something was done.
  bool walk_if_free(std::int64_t partition);
  /// Likewise all of them.
  bool walk_all();

  bool is_over(std::int64_t partition) const { return course(partition).over.load(std::memory_order_acquire); }
  bool all_are_over() const;
  /// Of all partitions and epochs.
  std::uint64_t actions_done() const { return actions_done_.load(std::memory_order_relaxed); }

 private:
  enum class Result : std::uint8_t { waits, runs, done };
  /// What came of a look at an action.
  struct Attempt {
    Result result;
    GpuWork::Ticket ticket = 0;  ///< of one that runs
  };
  /// An action that the GPU does.
  struct Running {
    int action;
    GpuWork::Ticket ticket;
  };
  /// One partition's.
  struct Course {
    explicit Course(const Order& order) : walk(order) {}
    Walk walk;
    std::vector<int> begun;  ///< actions that wait for nothing but themselves: receives, and the mark
    std::vector<Running> running;
    std::atomic<int> calls{0};  ///< threads that want it walked; the first of them walks
    std::atomic<bool> marked{false};
    std::atomic<bool> over{false};
  };

  const Course& course(std::int64_t partition) const { return courses_[static_cast<std::size_t>(partition)]; }
  Course& course(std::int64_t partition) { return courses_[static_cast<std::size_t>(partition)]; }
  /// Does whatever of the partition can be done now; returns whether it did something.
  bool walk(int partition, Course& course);
  bool walk_on(int partition, Course& course);
  bool end_running(int partition, Course& course);
  bool is_on_stream(int action) const;
  Attempt try_action(int partition, Course& course, int action);
  Attempt try_on_gpu(int partition, int action);
  bool may_write(const Region& region) const;
  void count_read(const Region& region);

  Owner& owner_;
  const CollectiveArguments& arguments_;
  const Schedule& schedule_;
  const Order order_;
  const CollectiveMemory& memory_;
  GpuWork* const gpu_;
  const LegsByAction& legs_;
  std::deque<Course> courses_;
  /// So many times a partition reads what the results of others are written over; see Problem::in_place.
  const std::int64_t reads_under_results_;
  std::atomic<std::int64_t> unread_{0};  ///< of all partitions, in the open epoch
  std::atomic<std::uint64_t> actions_done_{0};
};

}  // namespace partita::collective
