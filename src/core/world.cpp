#include "core/world.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/agreement.hpp"
#include "core/cores.hpp"
#include "core/first_meeting.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "core/node_folder.hpp"
#include "core/peer_file.hpp"

namespace partita {
namespace {

MPI_Comm private_duplicate(MPI_Comm comm) {
  MPI_Comm duplicate = MPI_COMM_NULL;
  PARTITA_MPI(Comm_dup(comm, &duplicate));
  PARTITA_MPI(Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN));
  return duplicate;
}

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::uint64_t agreed_job_id(MPI_Comm comm) {
  std::uint64_t id = random_number();
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

/// How a rank shows itself to the others of its node.
struct Introduction {
  std::int32_t rank;
  pid_t pid;
  FileName file;  ///< holds `secret`
  std::uint64_t secret;
};

/// What one rank can do with another.
struct Reach {
  char socket = 0;
  char files = 0;
};

UniqueFd file_with(std::uint64_t secret) {
  UniqueFd fd(::memfd_create("partita", MFD_CLOEXEC));
  if (fd.get() >= 0 && ::pwrite(fd.get(), &secret, sizeof secret, 0) != sizeof secret) return {};
  return fd;
}

bool opens(const Introduction& peer) {
  const UniqueFd fd = open_file_of(peer.pid, peer.file);
  std::uint64_t found = 0;
  return fd.get() >= 0 && ::pread(fd.get(), &found, sizeof found, 0) == sizeof found && found == peer.secret;
}

/// Cores that the ranks of this node share. An MPI that binds nothing, a container or a batch system may leave all of
/// them in one mask, or give them less time than the cores have.
int cores_of_node(MPI_Comm node, int ranks) {
  const CoreShare mine = own_core_share();
  std::vector<CoreShare> shares(static_cast<std::size_t>(ranks));
  const int size_bytes = static_cast<int>(sizeof mine);
  PARTITA_MPI(Allgather(&mine, size_bytes, MPI_BYTE, shares.data(), size_bytes, MPI_BYTE, node));
  return cores_together(shares);
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
  spare_cores_ = cores_of_node(node, ranks) - ranks;
  open_socket(node);
  meet_node(node);
  PARTITA_MPI(Comm_free(&node));
}

World::~World() {
  free_communicators();
}

/// Every socket of the node is bound when this returns. The node's first rank makes the folder; who does not see it,
/// in a container of its own, makes another one, and is out of the others' reach.
void World::open_socket(MPI_Comm node) {
  int rank_on_node = 0;
  PARTITA_MPI(Comm_rank(node, &rank_on_node));
  std::array<char, sizeof(sockaddr_un::sun_path)> name{};
  std::optional<Error> failure;
  try {
    if (rank_on_node == 0) make_node_folder().copy(name.data(), name.size() - 1);
  } catch (const Error& error) {
    failure = error;
  }
  PARTITA_MPI(Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, node));
  try {
    do_together(control_, "open its socket", [&] {
      if (failure) throw Error(*failure);
      std::string folder = name.data();
      if (!is_private_folder(folder)) folder = make_node_folder();
      socket_ = std::make_unique<NodeSocket>(std::move(folder), rank_);
    });
  } catch (const SharedError&) {
    socket_.reset();
    ::rmdir(name.data());
    free_communicators();
    throw;
  }
}

/// Finds the ranks of the node whose sockets this rank's reaches and which reach this one's: in containers of their own
/// ranks are on one node for the MPI, but pass each other no descriptors.
void World::meet_node(MPI_Comm node) {
  int size = 0;
  PARTITA_MPI(Comm_size(node, &size));
  const std::uint64_t secret = random_number();
  const UniqueFd file = file_with(secret);
  const Introduction mine{rank_, ::getpid(), file.get() < 0 ? FileName{} : file_name_of(file.get()), secret};
  std::vector<Introduction> peers(static_cast<std::size_t>(size));
  PARTITA_MPI(Allgather(&mine, sizeof mine, MPI_BYTE, peers.data(), sizeof mine, MPI_BYTE, node));

  std::vector<Reach> reached(peers.size()), reached_by(peers.size());
  std::transform(peers.begin(), peers.end(), reached.begin(), [&](const Introduction& peer) {
    return Reach{static_cast<char>(peer.rank == rank_ || socket_->reaches(peer.rank)), static_cast<char>(opens(peer))};
  });
  PARTITA_MPI(Alltoall(reached.data(), sizeof(Reach), MPI_BYTE, reached_by.data(), sizeof(Reach), MPI_BYTE, node));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (reached[i].socket == 0 || reached_by[i].socket == 0) continue;
    node_.push_back(peers[i].rank);
    processes_.emplace(peers[i].rank, peers[i].pid);
    if (reached_by[i].files != 0) openers_.insert(peers[i].rank);
  }
  std::sort(node_.begin(), node_.end());
}

void World::free_communicators() {
  native::Group_free(&group_);
  if (leave_communicators_) return;
  native::Comm_free(&data_);
  native::Comm_free(&control_);
}

void World::divide_node(int parts) {
  const std::size_t ranks = node_.size();
  const auto count = static_cast<std::size_t>(parts);
  if (ranks % count != 0) {
    throw Error(
        ErrorClass::arg,
        "the environment sets PARTITA_NODES={}, but expected is a divisor of the number of ranks on each machine, "
        "here {}",
        parts, ranks);
  }
  const auto size = static_cast<std::ptrdiff_t>(ranks / count);
  const auto own = std::lower_bound(node_.begin(), node_.end(), rank_) - node_.begin();
  const auto first = node_.begin() + own / size * size;
  node_ = std::vector<int>(first, first + size);
  const auto is_elsewhere = [this](int peer) { return !on_my_node(peer); };
  std::erase_if(processes_, [&](const auto& process) { return is_elsewhere(process.first); });
  std::erase_if(openers_, is_elsewhere);
}

bool World::on_my_node(int peer) const {
  return std::binary_search(node_.begin(), node_.end(), peer);
}

bool World::has_ended(int peer) const {
  return peer != rank_ && on_my_node(peer) && !socket_->alive(peer);
}

std::vector<int> World::world_ranks(MPI_Group group) const {
  int size = 0;
  PARTITA_MPI(Group_size(group, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> translated(ranks.size());
  PARTITA_MPI(Group_translate_ranks(group, size, ranks.data(), group_, translated.data()));
  return translated;
}

}  // namespace partita
