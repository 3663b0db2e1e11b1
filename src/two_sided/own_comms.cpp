#include "two_sided/own_comms.hpp"

#include <exception>

#include "core/agreement.hpp"
#include "core/mpi_check.hpp"

namespace partita {

void raise_on(const Communicator& communicator, int code) {
  const bool is_alive = communicator.alive.load(std::memory_order_acquire);
  native::Comm_call_errhandler(is_alive ? communicator.handle : MPI_COMM_SELF, code);
}

OwnComms::Group::Group(MPI_Comm comm) {
  PARTITA_MPI(Comm_group(comm, &group_));
}

void OwnComms::Group::free() noexcept {
  if (group_ != MPI_GROUP_NULL) native::Group_free(&group_);
}

OwnComms::OwnComms(const World& world, bool are_wanted) {
  if (!are_wanted) return;
  try {
    do_together(world.control(), "make communicators of Partita's", [&] { open(world); });
  } catch (const std::exception&) {
    close();
    throw;
  }
}

OwnComms::~OwnComms() {
  sweep();
  close();
}

/// A communicator of its own: some MPIs make others on it by messages with the tags that were given.
void OwnComms::open(const World& world) {
  PARTITA_MPI(Comm_dup(world.control(), &world_));
  PARTITA_MPI(Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
  tag_upper_bound_ = world.tag_upper_bound();
  const Group self(MPI_COMM_SELF);
  make_with(self.get(), 0, &self_);
}

void OwnComms::close() noexcept {
  if (self_ != MPI_COMM_NULL) native::Comm_free(&self_);
  if (world_ != MPI_COMM_NULL) native::Comm_free(&world_);
}

void OwnComms::make_with(MPI_Group group, int tag, MPI_Comm* made) const {
  PARTITA_MPI(Comm_create_group(world_, group, tag, made));
  PARTITA_MPI(Comm_set_errhandler(*made, MPI_ERRORS_RETURN));
}

OwnComms::Place::Place(const Communicator& communicator) : group_(communicator.handle), id_(communicator.id) {}

/// Threads may make several at once: the tag, by the id, tells them apart.
void OwnComms::make(Place& place) {
  const auto tags = static_cast<std::uint64_t>(tag_upper_bound_) + 1;
  make_with(place.group_.get(), static_cast<int>(place.id_ % tags), &place.comm_.front());
  place.group_.free();  // where the place goes the MPI may hold locks
}

void OwnComms::leave(Place& place) noexcept {
  if (place.comm() == MPI_COMM_NULL) return;
  const std::lock_guard lock(mutex_);
  left_.splice(left_.end(), place.comm_);
}

void OwnComms::sweep() {
  std::list<MPI_Comm> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(left_);
  }
  for (MPI_Comm& comm : left) native::Comm_free(&comm);
}

}  // namespace partita
