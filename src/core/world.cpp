#include "core/world.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include <sched.h>
#include <unistd.h>

#include "core/agreement.hpp"
#include "core/first_meeting.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

MPI_Comm private_duplicate(MPI_Comm comm) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  PARTITA_MPI(Comm_dup(comm, &duplicate));
  PARTITA_MPI(Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN));
  return duplicate;
}

std::uint64_t agreed_job_id(MPI_Comm comm) {
  std::random_device device;
  std::uint64_t id = (std::uint64_t{device()} << 32) | device();
  PARTITA_MPI(Bcast(&id, 1, MPI_UINT64_T, 0, comm));
  return id;
}

MPI_Comm node_of(MPI_Comm comm, int rank) {
  MPI_Comm node = MPI_COMM_NULL;
  PARTITA_MPI(Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  return node;
}

std::vector<int> ranks_of(MPI_Comm node, int rank) {
  int size = 0;
  PARTITA_MPI(Comm_size(node, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  PARTITA_MPI(Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node));
  return ranks;
}

/// Those of `ranks`, which are the node's in its order, whose sockets this rank's reaches and which reach this one's,
/// ascending: ranks with network namespaces of their own are on one node for the MPI, but pass each other no
/// descriptors.
std::vector<int> within_reach(MPI_Comm node, const std::vector<int>& ranks, int rank, const NodeSocket& socket) {
  std::vector<char> reached(ranks.size()), reached_by(ranks.size());
  std::transform(ranks.begin(), ranks.end(), reached.begin(),
                 [&](int peer) { return static_cast<char>(peer == rank || socket.alive(peer)); });
  PARTITA_MPI(Alltoall(reached.data(), 1, MPI_CHAR, reached_by.data(), 1, MPI_CHAR, node));
  std::vector<int> both;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (reached[i] != 0 && reached_by[i] != 0) both.push_back(ranks[i]);
  }
  std::sort(both.begin(), both.end());
  return both;
}

/// Cores that the ranks of this node share; where each rank is bound to cores of its own, those of all together.
int cores_of_node(int ranks) {
  cpu_set_t mine;
  const int online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  const int bound = ::sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : online;
  return std::min(online, bound * ranks);
}

}  // namespace

World::World(MPI_Comm world, double timeout_s)
    : control_(private_duplicate_of(world, timeout_s)), data_(private_duplicate(control_)) {
  PARTITA_MPI(Comm_rank(control_, &rank_));
  log_rank = rank_;
  PARTITA_MPI(Comm_size(control_, &size_));
  PARTITA_MPI(Comm_group(control_, &group_));
  PARTITA_MPI(Query_thread(&thread_level_));
  int* bound = nullptr;
  int found = 0;
  PARTITA_MPI(Comm_get_attr(data_, MPI_TAG_UB, &bound, &found));
  if (found != 0) tag_upper_bound_ = *bound;

  job_id_ = agreed_job_id(control_);
  MPI_Comm node = node_of(control_, rank_);
  const std::vector<int> on_node = ranks_of(node, rank_);
  const int ranks = static_cast<int>(on_node.size());
  spare_cores_ = cores_of_node(ranks) - ranks;
  open_socket();
  node_ = within_reach(node, on_node, rank_, *socket_);
  PARTITA_MPI(Comm_free(&node));
}

World::~World() {
  free_communicators();
}

/// Every socket of the node is bound when this returns.
void World::open_socket() {
  try {
    do_together(control_, "open its socket", [this] { socket_ = std::make_unique<NodeSocket>(job_id_, rank_); });
  } catch (const SharedError&) {
    free_communicators();
    throw;
  }
}

void World::free_communicators() {
  PMPI_Group_free(&group_);
  if (leave_communicators_) return;
  PMPI_Comm_free(&data_);
  PMPI_Comm_free(&control_);
}

bool World::on_my_node(int peer) const {
  return std::binary_search(node_.begin(), node_.end(), peer);
}

bool World::has_ended(int peer) const {
  return peer != rank_ && on_my_node(peer) && !socket_->alive(peer);
}

int World::world_rank(MPI_Group group, int rank) const {
  int translated = MPI_UNDEFINED;
  PARTITA_MPI(Group_translate_ranks(group, 1, &rank, group_, &translated));
  return translated;
}

}  // namespace partita
