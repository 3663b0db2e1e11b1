// From the partitions of a send that are complete to runs of transport partitions that leave together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "link/hold_board.hpp"
#include "link/plan.hpp"
#include "transfer/partition_set.hpp"

namespace partita {

/// Partitions that leave together once all of them are complete: those of one transport partition, or of several
/// neighbours.
class Groups {
 public:
  Groups() = default;
  /// Groups the transport partitions of `plan` evenly; 1 <= count <= plan.transport_partitions().
  Groups(const link::Plan& plan, std::int32_t count);

  std::int32_t count() const { return count_; }
  link::Range transports(std::int32_t group) const;
  link::Range partitions(std::int32_t group) const;
  std::int32_t of(std::int64_t partition) const;

  /// A new epoch. Nobody asks meanwhile.
  void begin();
  /// A new epoch in which `complete` has partitions already.
  void begin(const PartitionSet& complete);
  /// Per partition: the bits in its word of its group; null where each partition is a group.
  const std::uint64_t* masks() const { return masks_.empty() ? nullptr : masks_.data(); }
  /// The caller has completed the bits of the group of `partition` that lie in one word: whether the group is complete
  /// by that. True for one caller only, who acquires the bytes of all that have added to the group.
  bool completes(std::int64_t partition) { return missing_.empty() || completes_last_word(partition); }

 private:
  bool completes_last_word(std::int64_t partition);

  link::Plan plan_;
  std::int32_t count_ = 1;
  std::vector<std::uint64_t> masks_;  ///< per partition: the bits in its word of its group; empty: each is a group
  std::vector<std::atomic<std::int32_t>> missing_;  ///< per group: words still to be complete; empty: all have one
};

/// Decides when transport partitions leave. In an epoch that does not hold, each one leaves once it is complete. In one
/// that holds, it waits for its group: the neighbours with which it is worth a transfer. Somebody must end a wait that
/// takes too long by leave_held(), then.
class Gathering {
 public:
  explicit Gathering(std::int32_t partitions) : complete_(partitions) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// The plan, and in how many transfers all leaves where partitions are completed together. Throws std::bad_alloc.
  /// `board`: where the receiver sees what is held, and fetches it; none where it does not.
  void connect(const link::Plan& plan, std::int32_t transfers, std::optional<link::HoldBoard> board = {});
  /// Whether holding makes a difference.
  bool may_hold() const { return together_.count() < plan_.transport_partitions(); }

  /// A new epoch: nothing is complete. Nobody else calls meanwhile.
  void begin(bool holds, Epoch epoch);
  bool holds() const { return holds_; }
  /// Whether the receiver fetches what is held for too long.
  bool is_shown() const { return board_.has_value(); }
  /// How many transport partitions it has fetched in this epoch. Acquires that it has read their bytes.
  std::int32_t fetched() const { return holds_ && board_ ? board_->fetched() : 0; }

  bool is_complete(std::int64_t partition) const { return complete_.contains(partition); }
  /// The first partition of `range` that is complete, or range.end.
  std::int64_t first_complete(link::Range range) const { return complete_.first_of(range); }

  /// Before connect(): keeps that partitions are complete, up to the first that is already, which it returns, or to the
  /// end.
  std::int64_t keep(link::Range partitions) {
    return complete_.add_each(partitions, [](const PartitionSet::Added&) {});
  }
  /// After connect(), before others add: what was kept begins the epoch. Returns what it completes.
  std::vector<link::Range> take_kept();

  /// What has come of adding a partition.
  enum class Added {
    already_there,  ///< without effect
    waits,          ///< for others of its group: nothing is to be done
    held,           ///< the same in an epoch that holds: somebody must look after it
    completes,      ///< what is to follow is leave_with()
  };
  /// Adds `partition`. Any thread.
  Added add(std::int64_t partition) {
    const std::uint64_t word = complete_.add(partition);
    if (word == 0) return Added::already_there;
    if (masks_ == nullptr || PartitionSet::has_all(word, masks_[partition])) return Added::completes;
    return holds_ ? Added::held : Added::waits;
  }
  /// After Added::completes: calls `leave` with the transport partitions that leave with `partition`, or `hold` where
  /// they wait for bits in other words.
  template <class Leave, class Hold>
  void leave_with(std::int64_t partition, Leave leave, Hold hold) {
    if (!holds_) {
      if (!singles_.completes(partition)) return;
      const std::int64_t t = plan_.transport_of_send(partition);
      leave(link::Range{t, t + 1});
    } else if (together_.completes(partition)) {
      leave_group(together_.of(partition), leave);
    } else {
      hold();
    }
  }
  /// Adds up to the first partition of `range` that is complete already, which it returns, or to its end.
  template <class Leave, class Hold>
  std::int64_t add(link::Range range, Leave leave, Hold hold) {
    link::Range run;
    const auto gather = [&](link::Range left) { join(run, left, leave); };
    const bool each_leaves = masks_ == nullptr && !holds_;
    const std::int64_t end = complete_.add_each(range, [&](const PartitionSet::Added& step) {
      if (each_leaves) return gather(step.added);
      for (std::int64_t p = step.added.begin; p < step.added.end; p = group_end(p)) {
        if (masks_ == nullptr || PartitionSet::has_all(step.word, masks_[p])) leave_with(p, gather, [] {});
      }
    });
    if (run.size() > 0) leave(run);
    if (holds_ && end > range.begin) hold();
    return end;
  }

  /// In an epoch that holds, and does not show that to the receiver: lets all that is complete and has not left leave.
  /// Any thread, several at once.
  template <class Leave>
  void leave_held(Leave leave) {
    link::Range run;
    for (std::int64_t first = 0; first < plan_.transport_partitions(); first += PartitionSet::bits) {
      take(first, held_in(first), run, leave);
    }
    if (run.size() > 0) leave(run);
  }
  /// What leave_held() would let leave, as a number that tells it from another such set; 0: nothing.
  std::uint64_t held() const;

 private:
  template <class Leave>
  void leave_group(std::int32_t group, Leave leave) {
    link::Range run;
    PartitionSet::for_each_part(together_.transports(group),
                                [&](link::Range part) { take(part.begin, PartitionSet::mask(part), run, leave); });
    if (run.size() > 0) leave(run);
  }
  /// Joins to `run` those of `wanted`, transport partitions in the word of `t`, that nobody else has taken.
  template <class Leave>
  void take(std::int64_t t, std::uint64_t wanted, link::Range& run, Leave leave) {
    if (wanted != 0) PartitionSet::join_all(run, t, claim(t, wanted), leave);
  }
  /// Those of `wanted` that nobody, here or at the receiver, has claimed in this epoch.
  std::uint64_t claim(std::int64_t t, std::uint64_t wanted) {
    return board_ ? board_->claim(PartitionSet::word_around(t).begin, wanted, epoch_) : left_.claim(t, wanted);
  }
  void show(const link::HoldBoard& board, bool holds);
  std::uint64_t held_in(std::int64_t first) const;
  std::int64_t group_end(std::int64_t partition) const {
    return holds_ ? together_.partitions(together_.of(partition)).end
                  : plan_.send_run(plan_.transport_of_send(partition)).end;
  }

  link::Plan plan_;
  PartitionSet complete_;  ///< partitions
  PartitionSet left_;      ///< transport partitions that have left, in an epoch that holds, where there is no board
  std::optional<link::HoldBoard> board_;
  Epoch epoch_ = no_epoch;
  bool is_on_board_ = false;  ///< `complete_`, which moves there as the first epoch after connect() begins
  Groups singles_;            ///< one a transport partition
  Groups together_;
  const std::uint64_t* masks_ = nullptr;  ///< of the groups of this epoch
  bool holds_ = false;
};

}  // namespace partita
