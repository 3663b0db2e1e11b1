// Collectives of the MPI's on GPU memory by peer memory: the ranks of a node write into one another's GPUs
// (docs/design/gpu-aware.md; the third protocol of ipc-collectives-gpu).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "transfer/communicator.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_place.hpp"
#include "two_sided/peer_reasons.hpp"
#include "two_sided/peer_request.hpp"
#include "two_sided/peer_services.hpp"
#include "two_sided/peer_times.hpp"
#include "two_sided/side_work.hpp"

namespace partita {

class PeerCollectives {
 public:
  explicit PeerCollectives(PeerServices services)
      : services_(std::move(services)),
        mappings_(services_.requests.device_memory),
        reasons_(services_.requests.settings) {}

  /// This rank begins a blocking collective that may go this way. `none` where no such one of `communicator` does: its
  /// ranks are not all of one node, or the job does not want it, or has no memory for it, or end_calls() was called.
  /// The first call is collective over it. Throws Error.
  enum class Begun : std::uint8_t {
    none,
    left,  ///< this rank's answer is no, and the MPI makes the call
    may_ask,
  };
  Begun begin(Communicator& communicator);
  /// The ranks of a communicator of which a call has begun, or may be queued.
  static PeerRanks ranks_of(const Communicator& communicator, PeerCollective collective, const PeerSizes& sizes) {
    const PeerPlace& place = place_of(communicator);
    return {place.ranks, place.rank, sizes.from_bytes(collective, place.ranks)};
  }
  /// From which size on calls go so, on all ranks alike; none: never.
  const std::optional<PeerSizes>& sizes() const { return services_.sizes; }
  /// One of these ends what has begun and may ask. leave(): the answer is no. make(): makes the call that is described,
  /// on all ranks, and returns true; or on none, and returns false: the ranks agree. Collective. Both come behind the
  /// nonblocking calls before, and make() waits until these have ended, or are the MPI's. The first that is made on a
  /// communicator makes the queue of its nonblocking ones, too, and waits for all ranks in the MPI; a later one where
  /// that could not be yet. Throw Error.
  void leave(Communicator& communicator);
  bool make(Communicator& communicator, const PeerParts& parts);
  bool make(Communicator& communicator, const PeerShares& shares);
  /// PeerBoard::end_calls, from what has begun on.
  void end_calls(Communicator& communicator);

  /// Whether nonblocking ones may go this way; all ranks of `communicator` know alike. Local.
  static bool may_queue(const Communicator& communicator) {
    return communicator.part != nullptr && place_of(communicator).queue != nullptr;
  }
  /// Whether some of `communicator` are in the queue of one that may.
  static bool has_before(const Communicator& communicator) { return place_of(communicator).has_before(); }
  /// This rank's next collective is one that goes so: their queue. Throws Error.
  static PeerQueue& queue_of(const Communicator& communicator);
  /// The call of this rank that the MPI has made in place of one that would have come to the empty queue.
  static void count(const Communicator& communicator);
  /// A request of such a call, to be described and queued. Throws Error.
  std::unique_ptr<PeerRequest> request_on(std::shared_ptr<Communicator> communicator);
  /// Whether the MPI refuses these elements in any call, or the operation on them. Local; nothing is read or written.
  bool refuses(const void* buffer, std::int64_t count, MPI_Datatype type) const;
  bool refuses(MPI_Op op, MPI_Datatype type) const;
  /// Calls that begin from now on add where their time goes to `times`, one thread's at a time; null: they do not.
  void add_times_to(PeerTimes* times) { times_ = times; }

 private:
  /// That of a communicator whose calls have begun.
  static PeerPlace& place_of(const Communicator& communicator) { return static_cast<PeerPlace&>(*communicator.part); }
  void open(Communicator& communicator);
  bool are_near(Communicator& communicator) const;
  std::unique_ptr<PeerBoard> make_board(Communicator& communicator);
  void await_queue(PeerQueue& queue);
  void make_queue(Communicator& communicator);
  template <class Call, class Description>
  bool made(Communicator& communicator, const Description& description);

  PeerServices services_;
  PeerMappings mappings_;
  PeerReasons reasons_;
  std::atomic<PeerTimes*> times_{nullptr};
  SideWork side_work_;  ///< ends before what its jobs use
};

}  // namespace partita
