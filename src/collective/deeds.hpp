// What the actions of a collective do, in the memory of this rank and with its legs.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "collective/collective_arguments.hpp"
#include "collective/courses.hpp"
#include "collective/gpu_work.hpp"
#include "collective/leg.hpp"
#include "collective/memory.hpp"

namespace partita::collective {

/// The legs of a schedule, by action; null where it is none, or empty.
struct LegsByAction {
  explicit LegsByAction(std::size_t actions) : sends(actions), receives(actions) {}
  std::vector<SendLeg*> sends;
  std::vector<ReceiveLeg*> receives;
};

/// In host memory all is done at once; in GPU memory copies and reductions begin, on the stream of a GpuWork. The bits
/// of results do not depend on which partitions make a run.
class Deeds final : public Courses::Doer {
 public:
  /// `gpu`: null in host memory. Keeps references to all of them.
  Deeds(const CollectiveArguments& arguments, const Schedule& schedule, const CollectiveMemory& memory, GpuWork* gpu,
        const LegsByAction& legs);

  /// A new epoch. Nobody else calls meanwhile.
  void restart();

  bool is_on_stream(int action) const override;
  bool may_begin(int action) const override;
  std::int64_t first_missing(int action, link::Range partitions) const override;
  std::optional<Ticket> act(int action, link::Range run) override;
  void flush() override { gpu_->flush(); }
  bool ended(Ticket ticket) const override { return gpu_->ended(ticket); }
  void finish(int action, link::Range run) override;

 private:
  const Action& action(int place) const { return schedule_.actions[static_cast<std::size_t>(place)]; }
  SendLeg* send_leg(int action) const { return legs_.sends[static_cast<std::size_t>(action)]; }
  ReceiveLeg* receive_leg(int action) const { return legs_.receives[static_cast<std::size_t>(action)]; }
  void act_at_once(int action, link::Range run);
  std::optional<Ticket> begin_on_gpu(int action, link::Range run);
  template <class Use>
  void for_each_piece(int action, link::Range run, Use use) const;
  bool is_one_piece(const Action& action) const;
  void count_reads(const Region& region, std::int64_t partitions);

  const CollectiveArguments& arguments_;
  const Schedule& schedule_;
  const CollectiveMemory& memory_;
  GpuWork* const gpu_;
  const LegsByAction& legs_;
  std::vector<bool> is_one_piece_;  ///< by action
  /// So many times a partition reads what the results of others are written over; see Problem::in_place.
  const std::int64_t reads_under_results_;
  std::atomic<std::int64_t> unread_{0};  ///< of all partitions, in the open epoch
};

}  // namespace partita::collective
