// A partitioned collective: its partitions walk the schedule of this rank, neighbours in runs where they can
// (courses.hpp).
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collective/algorithms.hpp"
#include "collective/collective_arguments.hpp"
#include "collective/courses.hpp"
#include "collective/deeds.hpp"
#include "collective/gpu_work.hpp"
#include "collective/leg.hpp"
#include "collective/meeting.hpp"
#include "collective/memory.hpp"
#include "partitioned/gpu/device_request.hpp"
#include "partitioned/gpu/hand_overs.hpp"
#include "partitioned/operation.hpp"
#include "partitioned/request_services.hpp"

namespace partita::collective {

/// A partition's way: marked, and whatever it needs of others received → copied, reduced, sent on, as the schedule says
/// → over, and arrived. Marks and the progress engine walk: sends leave within the mark that they wait for, receives
/// are looked at in the engine's steps. In GPU memory copies and reductions begin there, on a stream, and end by
/// themselves; what follows on the stream is begun behind them at once, and what is sent leaves in the first walk that
/// finds it ended. Where kernels use it, their marks are taken from the words that they hand over in, and they hear of
/// what is over.
class Collective final : public Operation,
                         public Markable,
                         public Awaitable,
                         private DeviceRequest::Owner,
                         private Courses::Owner,
                         private ActiveStep {
 public:
  Collective(const RequestServices& services, CollectiveArguments arguments);
  ~Collective() override;

  void mark(std::int64_t partition) override { mark(partition, partition); }
  void mark(std::int64_t first, std::int64_t last) override;
  bool arrived(std::int64_t partition) override;

  void seek_peers() override;
  bool matched() const override;
  void start() override;
  bool active() const override { return active_.load(std::memory_order_acquire); }
  bool open() const override { return active() || device_.has_news(); }
  bool done() override;
  bool prepared() override;
  void close() override;
  void fill_status(MPI_Status* status) const override;
  void fail(const Error& error) override;
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override;
  std::vector<Half*> halves() override;
  bool lingers() override { return meeting_.is_awaited(); }
  std::vector<Half*> lingering_halves() override;
  void stop_lingering() override;
  bool in_gpu_memory() const override { return gpu_ != nullptr; }
  const char* kind() const override;
  bool has_partitions() const override { return arguments_.is_partitioned; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override;
  std::uint64_t how_far() const override;

 private:
  void make_legs();
  bool all_have_met() const;
  bool empty_legs_have_met() const;
  /// Those of the schedule and of the meeting.
  template <class Body>
  void for_each_leg(Body body) const {
    for (const auto& leg : legs_) body(*leg);
    for (const auto& leg : meeting_.legs()) body(*leg);
  }
  /// A thread is in mark().
  class Marking {
   public:
    explicit Marking(std::atomic<int>& count) : count_(count) { count_.fetch_add(1, std::memory_order_acq_rel); }
    ~Marking() { count_.fetch_sub(1, std::memory_order_release); }
    Marking(const Marking&) = delete;
    Marking& operator=(const Marking&) = delete;

   private:
    std::atomic<int>& count_;
  };

  partita_u32 sides() const override;
  link::Driver driver() const override { return link::Driver::host; }
  memory::Place place() const override;
  bool is_to_nobody() const override { return false; }
  bool knows_prequest_terms() const override;
  PrequestTerms prequest_terms() override;
  bool device_step() override;
  bool kernels_can_wait() const override;
  std::optional<Error> why_peers_are_lost(KernelFindings& findings) override;
  Epoch epoch() const override { return epoch_; }
  std::string name() const override;
  bool failed() const override;
  bool given_up() const override { return given_up_.load(std::memory_order_acquire); }
  void throw_if_over() const override;
  void fail_for_kernels(const Error& error, Mail::Caller caller) override { fail_as("failed", error, caller); }

  void check_startable() const;
  void throw_if_failed() const;
  void fail_as(const char* what, const Error& error, Mail::Caller caller);
  void end_epoch(const std::optional<Error>& cause);
  bool is_lost() const;
  bool has_completed();
  bool device_done();
  bool take_marks();
  bool tell_arrivals();
  void enter_gpu() const {
    if (gpu_ != nullptr) gpu_->enter();
  }
  Outcome step() noexcept override;
  bool may_go_on() const noexcept override { return !failed_.load(std::memory_order_acquire); }
  void could_not_go_on() noexcept override;
  bool everything_is_over();

  const RequestServices& services_;
  CollectiveArguments arguments_;
  DeviceRequest device_;
  const Algorithm& algorithm_;
  const Schedule schedule_;
  CollectiveMemory memory_;
  std::unique_ptr<GpuWork> gpu_;  ///< where buffers lie in GPU memory; ends before the memory
  std::vector<std::unique_ptr<Leg>> legs_;
  std::vector<std::unique_ptr<Leg>> empty_legs_;  ///< of the empty actions: once they have met, nobody looks at them
  mutable std::atomic<bool> empty_legs_have_met_{false};
  CollectivePlaces places_;
  Meeting meeting_;
  LegsByAction legs_of_;
  Deeds deeds_;
  Courses courses_;
  std::atomic<bool> active_{false};
  std::atomic<int> marking_{0};  ///< threads that are in mark()
  std::atomic<bool> complete_{false};
  Epoch epoch_;  ///< the newest
  std::atomic<bool> given_up_{false};
  const link::Plan plan_;                 ///< as kernels see the partitions, which have no bytes there
  HandOvers hand_overs_;                  ///< marks of kernels
  std::vector<std::atomic<Epoch>> told_;  ///< by partition: the newest epoch in which kernels were told of its arrival
  std::atomic<int> told_count_{0};        ///< in the open epoch
  mutable std::atomic<std::size_t> asked_{
      0};  ///< the leg whose peer waits_for() named last: of legs_, then of empty_legs_, then the meeting's
  mutable std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  std::optional<Error> failure_;  ///< of an action, or of the program
};

}  // namespace partita::collective
