// The smaller transfers into which a link is given large ones, so that copies between a GPU and host memory overlap
// with the link's work.
#pragma once

#include "link/plan.hpp"

namespace partita {

/// The plan of the transfers that a link makes where one side at least stages `plan` in host memory: pieces of about
/// 1 MiB or more, at most 64 of them unless `plan` has more transfers. Each transport partition is some whole pieces.
/// It is `plan` itself where that is fine enough. Both sides cut alike.
link::Plan cut_for_staging(const link::Plan& plan);
/// The plan of the transfers: cut for staging where one side at least is `staged`, else `plan` itself.
inline link::Plan wire_of(const link::Plan& plan, bool staged) {
  return staged ? cut_for_staging(plan) : plan;
}

/// How the transport partitions of one plan lie in the pieces of another.
class Pieces {
 public:
  /// `wire` is cut_for_staging(plan), or `plan`.
  Pieces(const link::Plan& plan, const link::Plan& wire);

  std::int32_t count() const { return wire_.transport_partitions(); }
  /// Those of which `transports` consist.
  link::Range of(link::Range transports) const;
  /// The packed bytes of neighbours, one at least.
  link::Range bytes(link::Range pieces) const { return bytes_of(wire_, pieces); }
  /// As many of `pieces` as make up `size_bytes`; one at least.
  link::Range first_of(link::Range pieces, std::int64_t size_bytes) const;

 private:
  link::Plan plan_;
  link::Plan wire_;
  std::int64_t cuts_;  ///< of each send partition
};

}  // namespace partita
