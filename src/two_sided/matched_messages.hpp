// The communicators of messages that MPI_Mprobe or MPI_Improbe has found: the MPI does not tell.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "transfer/communicator.hpp"

namespace partita {

/// Knows those of messages on communicators whose calls come behind a stream of their own. Any thread.
class MatchedMessages {
 public:
  /// Some communicator has a stream of its own: before that nobody need call note().
  void turn_on() { on_.store(true, std::memory_order_relaxed); }
  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// A probe on `communicator`, which may be null, has found the message. Each is told, since handles come again.
  void note(const MPI_Message& handle, const std::shared_ptr<Communicator>& communicator);
  /// Null where nobody knows. `handle` may be null.
  std::shared_ptr<Communicator> take(const MPI_Message* handle);

 private:
  using Key = std::uint64_t;
  static Key key_of(MPI_Message handle);

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Communicator>> known_;
  std::atomic<bool> on_{false};
};

}  // namespace partita
