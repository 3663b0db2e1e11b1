// The halos of two blocks that take turns, in queues: partita::halo, on hosts and on GPUs.
#pragma once

#include <mpi.h>

#include <memory>
#include <partita/halo.hpp>
#include <vector>

#include "apps/halo/halo.hpp"

namespace partita {

/// The first exchange of a series and the last one. What a graph holds is a series, or several; ready sends need to
/// know, since their receives start ahead.
struct halo_place {
  bool first = true, last = true;
};

/// A ready send may start only once its receive has. So receives are started one exchange ahead, before the rank's own
/// sends: whoever has received this exchange's message knows that the sender has started its receive of the next one.
/// The first exchange of a series has regular sends.
class turning_halos {
 public:
  /// Collective at both ends as partita::halo is.
  turning_halos(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_sends sends);

  /// Puts an exchange of the frame of `block`, whose turn it is, into `order`; a series begins with the first one.
  void enqueue(queue& order, const framed_block& block, halo_place place);
  /// Ends a series whose last exchange was not known to be the last: where receives have started ahead they get
  /// messages that nobody reads.
  void enqueue_end(queue& order);
  /// As of partita::halo.
  void check_graphs();
  void leave() noexcept;

 private:
  const void* const first_frame_;
  const halo_sends sends_;
  /// One for each block; in front of those with ready sends the first block's with regular ones.
  std::vector<std::unique_ptr<halo<2>>> halos_;
  halo<2>* ahead_ = nullptr;  ///< the one whose receives have started
};

}  // namespace partita
