// A nonblocking collective in the queue of its communicator.
#pragma once

#include <mpi.h>

#include <string>

#include "core/error.hpp"
#include "two_sided/peer_board.hpp"

namespace partita {

/// The queue calls its members, under the engine's lock unless said otherwise.
class PeerQueueEntry {
 public:
  PeerQueueEntry() = default;
  PeerQueueEntry(const PeerQueueEntry&) = delete;
  PeerQueueEntry& operator=(const PeerQueueEntry&) = delete;

  /// It is the first one: takes the steps that can be taken, and returns whether it is over or the MPI's. `comm`:
  /// where the MPI makes it. What it throws no later call can be made behind.
  virtual bool step(PeerBoard& board, MPI_Comm comm) = 0;
  /// It has failed, or comes behind one that has: what it has begun is given up.
  virtual void fail_in_queue(Error error) noexcept = 0;
  /// It is in the queue no more: whoever completes it may look at it, and end it, from here on.
  virtual void leave_queue() noexcept = 0;
  /// The MPI's name of the call. Any thread, like the next ones.
  virtual const char* name() const = 0;
  /// What it waits for while it is the first one, and for which rank of the world; -1 for none.
  virtual std::string explain_first() const = 0;
  virtual int first_waits_for() const = 0;

 protected:
  ~PeerQueueEntry() = default;
};

}  // namespace partita
