// Collectives of the MPI's on GPU memory by peer memory: the ranks of a node write into one another's GPUs
// (docs/design/gpu-aware.md; the third protocol of ipc-collectives-gpu).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "transfer/communicator.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_services.hpp"
#include "two_sided/peer_times.hpp"

namespace partita {

class PeerCollectives {
 public:
  explicit PeerCollectives(PeerServices services)
      : services_(std::move(services)), mappings_(services_.requests.device_memory) {}

  /// This rank begins a collective that may go this way. Null where no such one of `communicator` does: its ranks are
  /// not all of one node, or the job does not want it, or has no memory for it, or end_calls() was called. The first
  /// call is collective over it. Throws Error.
  struct Begun {
    PeerBoard* board = nullptr;
    bool may_ask = false;  ///< else this rank's answer is no, and the MPI makes the call
  };
  Begun begin(Communicator& communicator);
  /// From which size on calls go so, on all ranks alike; none: never.
  const std::optional<PeerSizes>& sizes() const { return services_.sizes; }
  /// One of these ends what has begun and may ask. leave(): the answer is no. make(): makes the call that is described,
  /// on all ranks, and returns true; or on none, and returns false: the ranks agree. Collective. Throws Error.
  void leave(Communicator& communicator) { board_of(communicator).leave(); }
  bool make(Communicator& communicator, const PeerParts& parts);
  bool make(Communicator& communicator, const PeerShares& shares);
  /// PeerBoard::end_calls.
  void end_calls(Communicator& communicator) { board_of(communicator).end_calls(); }
  /// Calls that begin from now on add where their time goes to `times`, one thread's at a time; null: they do not.
  void add_times_to(PeerTimes* times) { times_ = times; }

 private:
  /// Whether a communicator has a board. With it no mapping ends: a program frees communicators where kernels run.
  struct Place final : CommunicatorPart {
    std::unique_ptr<PeerBoard> board;  ///< null: there can be none, as all ranks know
    std::optional<Error> failure;      ///< or this rank does not know whether the others have one
  };
  /// That of a communicator whose calls have begun.
  static Place& place_of(const Communicator& communicator) { return static_cast<Place&>(*communicator.part); }
  static PeerBoard& board_of(const Communicator& communicator) { return *place_of(communicator).board; }
  bool are_near(Communicator& communicator) const;
  std::unique_ptr<PeerBoard> make_board(Communicator& communicator);
  template <class Call, class Description>
  bool made(Communicator& communicator, const Description& description);
  void tell(const char* call, const std::string& why_not) noexcept;

  PeerServices services_;
  PeerMappings mappings_;
  std::atomic<PeerTimes*> times_{nullptr};
  std::mutex mutex_;
  std::set<std::string> told_;
};

}  // namespace partita
