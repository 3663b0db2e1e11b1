// Nonblocking collectives of a communicator that may go by peer memory, one behind the other.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/active_steps.hpp"
#include "core/error.hpp"
#include "core/progress.hpp"
#include "two_sided/left_comms.hpp"
#include "two_sided/made_board.hpp"
#include "two_sided/peer_board_making.hpp"
#include "two_sided/peer_queue_entry.hpp"
#include "two_sided/peer_reasons.hpp"
#include "two_sided/peer_services.hpp"

namespace partita {

/// On one rank. The ranks agree on one call at a time, in the order in which all of them make the calls. What they do
/// not make by peers goes to the MPI in this order, too, on a communicator that nobody else uses: there it meets the
/// others' whatever the program calls meanwhile.
class PeerQueue final : private ActiveStep {
 public:
  /// The program makes its first such call: makes that communicator, and the board where nobody has made it, in steps.
  /// Collective, in the order of the calls. `members`: the world ranks of `comm`, of which this one is number `rank`.
  /// Throws Error.
  PeerQueue(const PeerServices& services, PeerReasons& reasons, MadeBoard& made, MPI_Comm comm,
            const std::vector<int>& members, int rank);
  ~PeerQueue();

  /// Whether every call is over, or in the hands of the MPI. Any thread.
  bool is_empty() const { return calls_.load(std::memory_order_acquire) == 0; }
  /// Where the MPI makes a call that comes to the empty queue; MPI_COMM_NULL where that is not there yet.
  MPI_Comm comm() const { return is_ready_ ? duplicate_->comm : MPI_COMM_NULL; }
  /// The program has made the call. Throws Error.
  void add(PeerQueueEntry& call);
  /// This rank has left a blocking call to the MPI, and tells the others so behind what is in the queue.
  void add_no();
  /// The MPI has failed in that call: none is made by peers from it on.
  void end_calls();
  /// Nobody waits for it any more: neither is any behind it made, on any rank. Under the engine's lock.
  void give_up(PeerQueueEntry& call) noexcept;
  /// The same of all of them.
  void give_up() noexcept;
  /// The queue is empty: throws Error where it has come to an error, behind which no call can be made.
  void check() const;

  /// What `call`, which waits here, waits for. Any thread.
  std::string explain(const PeerQueueEntry& call) const;
  std::string explain_first() const;
  int waits_for() const;

 private:
  struct Entry {
    PeerQueueEntry* call = nullptr;  ///< null: a no of add_no()
    bool ends_calls = false;
  };

  /// The communicator, in memory that must stay where it is until the MPI has made it.
  struct Duplicate {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    Duplicate* next = nullptr;
  };

  Outcome step() noexcept override;
  bool becomes_ready();
  bool takes(Entry first) noexcept;
  std::string first_explains() const;
  void push(Entry entry);
  void pop();
  std::optional<Entry> first();
  void says_no(Entry entry);
  void fail() noexcept;

  const PeerServices& services_;
  Progress& progress_;
  LeftComms& left_comms_;
  PeerReasons& reasons_;
  MadeBoard& made_;
  const std::vector<int>& members_;
  const int rank_;
  std::unique_ptr<Duplicate> duplicate_;
  std::unique_ptr<BoardMaking> making_;
  bool is_ready_ = false;
  std::optional<Error> failure_;  ///< of a call, behind which no other can be made
  std::atomic<std::size_t> calls_{0};
  mutable std::mutex mutex_;  ///< of the next one
  std::deque<Entry> queue_;
};

}  // namespace partita
