// Nonblocking collectives of a communicator that may go by peer memory, one behind the other.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "core/active_steps.hpp"
#include "core/error.hpp"
#include "core/progress.hpp"
#include "transfer/communicator.hpp"
#include "two_sided/own_comms.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_queue_entry.hpp"

namespace partita {

/// On one rank. The ranks agree on one call at a time, in the order in which all of them make the calls. What they do
/// not make by peers goes to the MPI in this order, too, on a communicator that nobody else uses: there it meets the
/// others' whatever the program calls meanwhile.
class PeerQueue final : private ActiveStep {
 public:
  /// That of a communicator whose `board` this is; the latter outlives the queue. Takes all memory that the queue takes
  /// while it is empty. Throws Error.
  PeerQueue(Progress& progress, OwnComms& own_comms, PeerBoard& board, const Communicator& communicator);
  ~PeerQueue();

  /// Before the first call. Collective over `communicator`, and waits for its ranks in the MPI: OwnComms::make. Throws
  /// Error.
  void open() { own_comms_.make(own_); }

  /// Whether every call is over, or in the hands of the MPI. Any thread.
  bool is_empty() const { return calls_.load(std::memory_order_acquire) == 0; }
  /// Where the MPI makes what comes to the empty queue, and the queue what comes behind other calls.
  MPI_Comm comm() const { return own_.comm(); }
  /// The program has made the call. Throws Error.
  void add(PeerQueueEntry& call);
  /// This rank has left a blocking call to the MPI, and tells the others so behind what is in the queue.
  void add_no();
  /// The MPI has failed in the last blocking call that this rank has left so: none is made by peers from it on.
  /// `number`: of that call, if it is not in the queue.
  void end_calls(std::uint64_t number);
  /// Nobody waits for it any more: neither is any behind it made, on any rank. Under the engine's lock.
  void give_up(PeerQueueEntry& call) noexcept;
  /// Gives all of them up. Under the engine's lock.
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

  Outcome step() noexcept override;
  bool takes(Entry first) noexcept;
  std::string first_explains() const;
  void push(Entry entry);
  void pop();
  std::optional<Entry> first();
  void says_no(Entry entry);
  void fail() noexcept;

  Progress& progress_;
  OwnComms& own_comms_;
  PeerBoard& board_;
  OwnComms::Place own_;
  std::optional<Error> failure_;  ///< of a call, behind which no other can be made
  std::atomic<std::size_t> calls_{0};
  mutable std::mutex mutex_;  ///< of the next ones
  std::deque<Entry> queue_;
  std::uint64_t last_no_ = 0;  ///< the number of the last one that has left
};

}  // namespace partita
