#include "transfer/communicator.hpp"

#include "core/mpi_check.hpp"

namespace partita {
namespace {

struct OwnedGroup {
  OwnedGroup() = default;
  OwnedGroup(const OwnedGroup&) = delete;
  OwnedGroup& operator=(const OwnedGroup&) = delete;
  ~OwnedGroup() {
    if (handle != MPI_GROUP_NULL) native::Group_free(&handle);
  }
  MPI_Group handle = MPI_GROUP_NULL;
};

}  // namespace

std::uint32_t Communicator::draw_ordinal(Space space, bool send, int peer_world_rank, int tag) {
  const std::lock_guard lock(mutex_);
  return ordinals_[static_cast<std::size_t>(space)].draw(send, peer_world_rank, tag);
}

void Communicator::give_back_ordinal(Space space, bool send, int peer_world_rank, int tag, std::uint32_t ordinal) {
  const std::lock_guard lock(mutex_);
  ordinals_[static_cast<std::size_t>(space)].give_back(send, peer_world_rank, tag, ordinal);
}

const std::vector<int>& Communicator::members(const World& world) {
  return groups(world).members;
}

const std::vector<int>& Communicator::peers(const World& world) {
  const Groups& known = groups(world);
  return known.remote ? *known.remote : known.members;
}

const Communicator::Groups& Communicator::groups(const World& world) {
  const std::lock_guard lock(mutex_);
  if (groups_) return *groups_;
  int inter = 0;
  OwnedGroup own;
  PARTITA_MPI(Comm_test_inter(handle, &inter));
  PARTITA_MPI(Comm_group(handle, &own.handle));
  Groups found{world.world_ranks(own.handle), std::nullopt};
  if (inter != 0) {
    OwnedGroup remote;
    PARTITA_MPI(Comm_remote_group(handle, &remote.handle));
    found.remote = world.world_ranks(remote.handle);
  }
  return groups_.emplace(std::move(found));
}

}  // namespace partita
