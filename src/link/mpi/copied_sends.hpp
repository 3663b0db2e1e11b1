// Small messages sent from copies of their bytes.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "link/context.hpp"
#include "link/mpi/messages.hpp"

namespace partita::link::mpi {

/// The caller's bytes may change, and its request be freed, as soon as a send has begun, whenever the receiver comes:
/// MPIs take such small messages at once, and what one does not take is kept here. Any thread.
class CopiedSends {
 public:
  explicit CopiedSends(const Context& context) : context_(context) {}
  ~CopiedSends();
  CopiedSends(const CopiedSends&) = delete;
  CopiedSends& operator=(const CopiedSends&) = delete;

  /// Sends `head` and `bytes` as one message to world rank `peer`, on the communicator for data. Does
  /// not block. Throws Error where the MPI does not begin; of a failure that shows later nobody hears.
  void send(int peer, int tag, std::span<const std::byte> head, std::span<const std::byte> bytes);
  /// Sees off what the MPI has not taken yet. True if something moved.
  bool progress();

 private:
  struct Copy {
    Copy() { bytes.reserve(Piece::head_bytes + Piece::most_bytes); }  // so that any piece fits one used again

    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  using Copies = std::list<Copy>;

  bool free_if_sent(Copies::iterator copy);
  bool see_off();

  const Context context_;
  std::atomic<bool> waiting_{false};  ///< under_way_ has some, and steps are wanted for them
  std::mutex mutex_;
  Copies free_;
  Copies under_way_;
};

}  // namespace partita::link::mpi
