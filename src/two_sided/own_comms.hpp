// Communicators of Partita's with the ranks of the program's, for calls that the MPI makes behind the program's.
#pragma once

#include <mpi.h>

#include <mutex>
#include <vector>

#include "core/world.hpp"
#include "transfer/communicator.hpp"

namespace partita {

/// Calls the error handler of the program's communicator, as the MPI would have if it had been called there; that of
/// MPI_COMM_SELF once the program has freed it.
void raise_on(const Communicator& communicator, int code);

/// They have nothing of the program's communicators but the ranks: no attribute is copied, and no callback of the
/// program's runs. Errors return. Any thread.
class OwnComms {
 public:
  /// Collective over `world`, but where none is wanted. Throws Error.
  OwnComms(const World& world, bool are_wanted);
  ~OwnComms();
  OwnComms(const OwnComms&) = delete;
  OwnComms& operator=(const OwnComms&) = delete;

  /// One with the ranks of `communicator`. All of them call this, and wait for each other in the MPI. Throws Error.
  MPI_Comm make(const Communicator& communicator);
  /// Nobody begins a call on it any more. It is freed later: the program's go within callbacks of the MPI's, where it
  /// may hold locks.
  void leave(MPI_Comm comm);
  /// Frees those that were left; from within no callback, and not under the lock: an MPI may take long.
  void sweep();

  /// One with this process alone.
  MPI_Comm self() const { return self_; }

 private:
  MPI_Comm with_ranks_of(MPI_Comm comm, int tag) const;

  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm self_ = MPI_COMM_NULL;
  int tag_upper_bound_ = 0;
  std::mutex mutex_;
  std::vector<MPI_Comm> left_;
};

}  // namespace partita
