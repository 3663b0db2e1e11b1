// Communicators of Partita's with the ranks of the program's, for calls that the MPI makes behind the program's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <list>
#include <mutex>

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
  /// Collective over `world`, but where none is wanted. Throws SharedError, on all its ranks.
  OwnComms(const World& world, bool are_wanted);
  ~OwnComms();
  OwnComms(const OwnComms&) = delete;
  OwnComms& operator=(const OwnComms&) = delete;

  /// The ranks of a communicator.
  class Group {
   public:
    explicit Group(MPI_Comm comm);
    ~Group() { free(); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    MPI_Group get() const { return group_; }
    void free() noexcept;

   private:
    MPI_Group group_ = MPI_GROUP_NULL;
  };
  /// One that make() makes, and leave() takes back, with the memory that this takes.
  class Place {
   public:
    /// With the ranks of `communicator`. Local. Throws Error.
    explicit Place(const Communicator& communicator);

    /// MPI_COMM_NULL before it is made.
    MPI_Comm comm() const { return comm_.empty() ? MPI_COMM_NULL : comm_.front(); }

   private:
    friend class OwnComms;
    Group group_;
    const std::uint64_t id_;
    std::list<MPI_Comm> comm_{MPI_COMM_NULL};
  };
  /// All its ranks call this, and wait for each other in the MPI; nobody watches that wait. Throws Error.
  void make(Place& place);
  /// Nobody begins a call on it any more. It is freed later: the program's go within callbacks of the MPI's, where it
  /// may hold locks.
  void leave(Place& place) noexcept;
  /// Frees those that were left; from within no callback, and not under the lock: an MPI may take long.
  void sweep();

  /// One with this process alone.
  MPI_Comm self() const { return self_; }

 private:
  void open(const World& world);
  void close() noexcept;
  void make_with(MPI_Group group, int tag, MPI_Comm* made) const;

  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm self_ = MPI_COMM_NULL;
  int tag_upper_bound_ = 0;
  std::mutex mutex_;
  std::list<MPI_Comm> left_;
};

}  // namespace partita
