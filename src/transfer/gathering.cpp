#include "transfer/gathering.hpp"

#include <algorithm>

namespace partita {

Groups::Groups(const link::Plan& plan, std::int32_t count) : plan_(plan), count_(count) {
  if (count == plan.send_partitions()) return;
  masks_.reserve(static_cast<std::size_t>(plan.send_partitions()));
  bool one_word_each = true;
  for (std::int32_t group = 0; group < count; ++group) {
    one_word_each = one_word_each && PartitionSet::parts(partitions(group)) == 1;
    PartitionSet::for_each_part(partitions(group), [&](link::Range part) {
      masks_.insert(masks_.end(), static_cast<std::size_t>(part.size()), PartitionSet::mask(part));
    });
  }
  if (!one_word_each) missing_ = std::vector<std::atomic<std::int32_t>>(static_cast<std::size_t>(count));
}

link::Range Groups::transports(std::int32_t group) const {
  const std::int64_t transports = plan_.transport_partitions();
  return {group * transports / count_, (group + 1) * transports / count_};
}

link::Range Groups::partitions(std::int32_t group) const {
  const link::Range run = transports(group);
  return {plan_.send_run(run.begin).begin, plan_.send_run(run.end - 1).end};
}

std::int32_t Groups::of(std::int64_t partition) const {
  const std::int64_t t = plan_.transport_of_send(partition);
  return static_cast<std::int32_t>(((t + 1) * count_ - 1) / plan_.transport_partitions());
}

void Groups::begin() {
  for (std::int32_t group = 0; group < static_cast<std::int32_t>(missing_.size()); ++group) {
    missing_[static_cast<std::size_t>(group)].store(PartitionSet::parts(partitions(group)), std::memory_order_relaxed);
  }
}

void Groups::begin(const PartitionSet& complete) {
  for (std::int32_t group = 0; group < static_cast<std::int32_t>(missing_.size()); ++group) {
    std::int32_t missing = 0;
    PartitionSet::for_each_part(partitions(group),
                                [&](link::Range part) { missing += complete.contains_all(part) ? 0 : 1; });
    missing_[static_cast<std::size_t>(group)].store(missing, std::memory_order_relaxed);
  }
}

/// The caller has completed the bits of the group that lie in one word: whether all others are complete.
bool Groups::completes_last_word(std::int64_t partition) {
  // Acquires the bytes of those that have completed other words, releases ours: the last one in moves them all.
  return missing_[static_cast<std::size_t>(of(partition))].fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void Gathering::connect(const link::Plan& plan, std::int32_t transfers, std::optional<link::HoldBoard> board) {
  plan_ = plan;
  singles_ = Groups(plan, plan.transport_partitions());
  together_ = Groups(plan, transfers);
  if (may_hold()) board_ = board;
  if (may_hold() && !board_) left_ = PartitionSet(plan.transport_partitions());
  masks_ = singles_.masks();
}

void Gathering::begin(bool holds, Epoch epoch) {
  epoch_ = epoch;
  if (board_) {
    show(*board_, holds);
  } else {
    complete_.clear();
    if (holds_) left_.clear();
  }
  holds_ = holds;
  Groups& groups = holds ? together_ : singles_;
  masks_ = groups.masks();
  groups.begin();
}

/// The receiver may be looking, for what waited in the last epoch: that has all left, so it finds nothing to claim, and
/// of the new one nothing before it is told of that.
void Gathering::show(const link::HoldBoard& board, bool holds) {
  if (holds_ && !holds) board.end();
  if (!is_on_board_) complete_ = PartitionSet(board.complete_bits(), plan_.send_partitions());
  is_on_board_ = true;
  complete_.clear();
  if (holds) board.begin(epoch_);
}

std::vector<link::Range> Gathering::take_kept() {
  holds_ = false;
  singles_.begin(complete_);
  std::vector<link::Range> kept;
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    if (!complete_.contains_all(plan_.send_run(t))) continue;
    if (kept.empty() || kept.back().end != t) kept.push_back({t, t});
    kept.back().end = t + 1;
  }
  return kept;
}

/// The transport partitions in the word that `first` begins that are complete and have not left.
std::uint64_t Gathering::held_in(std::int64_t first) const {
  const std::uint64_t left = left_.word(first);
  const std::int64_t end = std::min<std::int64_t>(first + PartitionSet::bits, plan_.transport_partitions());
  if (plan_.transport_partitions() == plan_.send_partitions()) return complete_.word(first) & ~left;
  std::uint64_t held = 0;
  for (std::int64_t t = first; t < end; ++t) {
    const std::uint64_t bit = std::uint64_t{1} << (t - first);
    if ((left & bit) == 0 && complete_.contains_all(plan_.send_run(t))) held |= bit;
  }
  return held;
}

std::uint64_t Gathering::held() const {
  return link::number_of_waiting(plan_.transport_partitions(), [this](std::int64_t first) { return held_in(first); });
}

}  // namespace partita
