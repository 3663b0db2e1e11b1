// Collectives of the MPI's on GPU memory by peer memory: the ranks of a node write into one another's GPUs
// (docs/design/gpu-aware.md; the third protocol of ipc-collectives-gpu).
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "two_sided/peer_board.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_services.hpp"

namespace partita {

class PeerCollectives {
 public:
  explicit PeerCollectives(PeerServices services)
      : services_(std::move(services)), mappings_(services_.requests.device_memory) {}

  /// Null where collectives of `communicator` do not go this way: its ranks are not all of one node, or the job does
  /// not want it, or has no memory for it. The first call is collective over it. Throws Error.
  PeerBoard* board_of(Communicator& communicator);
  /// Where there is one: makes the call that is described, on all ranks, and returns true; or on none, and returns
  /// false: the ranks agree. Collective. Throws Error.
  bool make(Communicator& communicator, const PeerParts& parts);
  bool make(Communicator& communicator, const PeerShares& shares);
  /// The last one was not valid, and the MPI has refused it, too: other ranks, which may have made a valid call, find
  /// this one's in its next. Throws nothing.
  void take_back(Communicator& communicator);

 private:
  bool are_near(Communicator& communicator) const;
  std::unique_ptr<PeerBoard> make_board(Communicator& communicator);
  template <class Call, class Description>
  bool made(Communicator& communicator, const Description& description);
  void tell(const char* call, const std::string& why_not);

  PeerServices services_;
  PeerMappings mappings_;
  std::mutex mutex_;
  std::set<std::string> told_;
};

}  // namespace partita
