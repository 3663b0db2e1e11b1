#include "two_sided/own_comms.hpp"

#include <cstdint>
#include <utility>

#include "core/mpi_check.hpp"

namespace partita {

void raise_on(const Communicator& communicator, int code) {
  const bool is_alive = communicator.alive.load(std::memory_order_acquire);
  native::Comm_call_errhandler(is_alive ? communicator.handle : MPI_COMM_SELF, code);
}

/// A communicator of its own: some MPIs make others on it by messages with the tags that were given.
OwnComms::OwnComms(const World& world, bool are_wanted) {
  if (!are_wanted) return;
  PARTITA_MPI(Comm_dup(world.control(), &world_));
  PARTITA_MPI(Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
  tag_upper_bound_ = world.tag_upper_bound();
  self_ = with_ranks_of(MPI_COMM_SELF, 0);
}

OwnComms::~OwnComms() {
  if (world_ == MPI_COMM_NULL) return;
  sweep();
  if (self_ != MPI_COMM_NULL) native::Comm_free(&self_);
  native::Comm_free(&world_);
}

MPI_Comm OwnComms::with_ranks_of(MPI_Comm comm, int tag) const {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  PARTITA_MPI(Comm_group(comm, &group));
  const int code = native::Comm_create_group(world_, group, tag, &made);
  native::Group_free(&group);
  check_mpi(code, "MPI_Comm_create_group");
  PARTITA_MPI(Comm_set_errhandler(made, MPI_ERRORS_RETURN));
  return made;
}

/// Threads may make several at once: the tag, by the id, tells them apart.
MPI_Comm OwnComms::make(const Communicator& communicator) {
  sweep();
  const auto tags = static_cast<std::uint64_t>(tag_upper_bound_) + 1;
  return with_ranks_of(communicator.handle, static_cast<int>(communicator.id % tags));
}

void OwnComms::leave(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  left_.push_back(comm);
}

void OwnComms::sweep() {
  std::vector<MPI_Comm> left;
  {
    const std::lock_guard lock(mutex_);
    left = std::exchange(left_, {});
  }
  for (MPI_Comm& comm : left) native::Comm_free(&comm);
}

}  // namespace partita
