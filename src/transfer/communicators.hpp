// Which communicator is which, on all its ranks alike: an id per communicator without traffic where it is made.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "core/world.hpp"
#include "transfer/communicator.hpp"

namespace partita {

/// Keeps records as attributes of the communicators, so that freeing a communicator ends its record. Ids are hashes of
/// (parent's id, how many constructors were called on the parent before), which all ranks count alike.
class Communicators {
 public:
  /// `given` is the communicator of Partita_Init; it, MPI_COMM_WORLD and MPI_COMM_SELF are known from the start.
  Communicators(World& world, MPI_Comm given);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  /// Throws Error (comm) on MPI_COMM_NULL and on a communicator that is not known.
  std::shared_ptr<Communicator> find(MPI_Comm comm) const;
  /// The same, or null where it is not known. Throws Error (comm) where it is none.
  std::shared_ptr<Communicator> find_if_known(MPI_Comm comm) const { return lookup(comm); }
  /// Collective over `comm`: agrees an id by a broadcast on it. No-op where it is known.
  void add_collectively(MPI_Comm comm);
  /// Local; see Partita_Comm_derive.
  void add_derived(MPI_Comm parent, MPI_Comm comm);
  /// Local: `comm` gets the id that all its ranks were told.
  void add(MPI_Comm comm, std::uint64_t id);

 private:
  std::shared_ptr<Communicator> lookup(MPI_Comm comm) const;
  static int forget(MPI_Comm comm, int keyval, void* record, void* communicators);

  World& world_;
  int keyval_ = MPI_KEYVAL_INVALID;
  std::atomic<std::uint64_t> drawn_{0};
  mutable std::mutex mutex_;
  std::set<std::shared_ptr<Communicator>*> records_;
};

}  // namespace partita
