// Which transport partitions travel as one message where they leave together.
#pragma once

#include <algorithm>

#include "link/plan.hpp"

namespace partita::link::mpi {

/// Cuts the transport partitions of a plan evenly into blocks of neighbours. A run that is a whole block is one message
/// of the MPI, whose receive waits for it; what leaves as a part of a block goes in pieces.
class Blocks {
 public:
  Blocks() = default;
  /// 1 <= count <= plan.transport_partitions().
  Blocks(const Plan& plan, std::int32_t count) : plan_(plan), grouping_(plan.transport_partitions(), 1, count, 0) {}

  std::int32_t count() const { return grouping_.transport_partitions(); }
  std::int32_t transport_partitions() const { return plan_.transport_partitions(); }
  /// Whether a block has several transport partitions, so that one of them may leave before the others.
  bool may_go_in_parts() const { return count() < transport_partitions(); }
  Range transports(std::int64_t block) const { return grouping_.send_run(block); }
  std::int64_t of(std::int64_t transport) const { return grouping_.transport_of_send(transport); }
  Range bytes(Range transports) const { return bytes_of(plan_, transports); }
  /// Whether the block can go as its message. An empty message says that a block has gone in parts, so one of several
  /// transport partitions without bytes always does.
  bool can_go_whole(std::int64_t block) const {
    const Range all = transports(block);
    return all.size() == 1 || bytes(all).size() > 0;
  }

 private:
  Plan plan_;
  Plan grouping_;  ///< its send partitions are the transport partitions of plan_, its transport partitions the blocks
};

}  // namespace partita::link::mpi
