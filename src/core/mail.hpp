// Small messages between ranks, as those use them who do not care how they travel.
#pragma once

#include <cstdint>
#include <functional>

#include "core/wire.hpp"

namespace partita {

/// Messages between two ranks arrive in the order in which they were posted.
class Mail {
 public:
  using Handler = std::function<void(int from, wire::Reader message)>;
  /// Who posts: some MPIs let themselves be called by threads of the program alone (see World::thread_level).
  enum class Caller : std::uint8_t { may_call_the_mpi, may_not };

  /// Calls `handler` for messages whose first byte is `kind`. Before the first progress.
  virtual void on(std::uint8_t kind, Handler handler) = 0;
  /// Sends `message` (its first byte is the kind) after all descriptors passed to `peer` so far. Never blocks. From a
  /// caller who may not call the MPI, it leaves with the next step.
  virtual void post(int peer, wire::Bytes message, Caller caller = Caller::may_call_the_mpi) = 0;

 protected:
  ~Mail() = default;
};

}  // namespace partita
