// What Partita keeps with a communicator for its collectives by peer memory.
#pragma once

#include <memory>

#include "transfer/communicator.hpp"
#include "two_sided/made_board.hpp"
#include "two_sided/peer_queue.hpp"

namespace partita {

/// With it no mapping ends: a program frees communicators where kernels run. While calls are in the queue nobody else
/// looks at the board.
struct PeerPlace final : CommunicatorPart, MadeBoard {
  PeerPlace(int all_ranks, int own_rank) : ranks(all_ranks), rank(own_rank) {}

  const int ranks;
  const int rank;
  std::unique_ptr<PeerQueue> queue;  ///< of nonblocking calls; null before the first one
};

}  // namespace partita
