// What Partita keeps with a communicator for its collectives by peer memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/error.hpp"
#include "transfer/communicator.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_queue.hpp"

namespace partita {

/// With it no mapping ends: a program frees communicators where kernels run. While calls are in the queue nobody else
/// answers on the board.
struct PeerPlace final : CommunicatorPart {
  /// Whether nonblocking calls are before the next one.
  bool has_before() const { return queue != nullptr && !queue->is_empty(); }

  int ranks = 0;
  int rank = 0;
  std::unique_ptr<PeerBoard> board;  ///< null: there can be none, as all ranks know
  std::optional<Error> failure;      ///< or this rank does not know whether the others have one
  std::uint64_t made = 0;            ///< so many calls, on all ranks alike, while has_met is false
  bool has_met = false;              ///< its ranks have, to make the queue
  std::unique_ptr<PeerQueue> queue;  ///< of nonblocking calls; null: these are the MPI's, as all ranks know
  std::uint64_t last_blocking = 0;   ///< the number of the blocking call that this rank has begun last here
};

}  // namespace partita
