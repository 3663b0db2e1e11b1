// The processes that Partita runs over: ranks, nodes, private communicators.
#pragma once

#include <mpi.h>

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/node_socket.hpp"

namespace partita {

/// Collective to make and to destroy. "World rank" everywhere means a rank of this world.
class World {
 public:
  /// Throws SharedError where a rank cannot, and ends the process where ranks do not come within `timeout_s` (0:
  /// never).
  explicit World(MPI_Comm world, double timeout_s = 0);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int thread_level() const { return thread_level_; }
  std::uint64_t job_id() const { return job_id_; }

  /// For setup messages.
  MPI_Comm control() const { return control_; }
  /// For the data of link `mpi`.
  MPI_Comm data() const { return data_; }
  int tag_upper_bound() const { return tag_upper_bound_; }
  /// Operations stay under way on the communicators: they are not freed, since an MPI may use them to its own end.
  void leave_communicators() { leave_communicators_ = true; }

  /// World ranks of this node, ascending, this rank included: those that share memory with this rank for the MPI, and
  /// whose sockets it reaches.
  const std::vector<int>& node() const { return node_; }
  bool on_my_node(int peer) const;
  /// From here on the ranks of each node are `parts` nodes of equal size, neighbouring ranks together. Local, the same
  /// on all ranks, and before anything else asks for the node. Throws Error where they do not divide.
  void divide_node(int parts);
  /// Whether the process of `peer` is known to be gone: of ranks of this node, but for this one.
  bool has_ended(int peer) const;
  /// Cores of this machine beyond one a rank; negative when ranks share cores and spinning takes time from others.
  int spare_cores() const { return spare_cores_; }

  NodeSocket& socket() { return *socket_; }
  /// Whether `peer`, of this node, can open this process's shared-memory files by their descriptors' numbers
  /// (peer_file.hpp): they need not be passed.
  bool opens_our_files(int peer) const { return openers_.contains(peer); }
  /// The process of `peer`, of this node, in its own process-id namespace.
  pid_t process_of(int peer) const { return processes_.at(peer); }
  /// For tests: as if no peer could open them.
  void close_our_files() { openers_.clear(); }

  /// The world ranks of `group`, in its order; MPI_UNDEFINED where a process is not of this world. Local.
  std::vector<int> world_ranks(MPI_Group group) const;

 private:
  void open_socket(MPI_Comm node);
  void meet_node(MPI_Comm node);
  void free_communicators();

  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Group group_ = MPI_GROUP_NULL;
  int rank_ = 0;
  int size_ = 1;
  int thread_level_ = MPI_THREAD_SINGLE;
  int tag_upper_bound_ = 32767;
  bool leave_communicators_ = false;
  std::uint64_t job_id_ = 0;
  std::vector<int> node_;
  int spare_cores_ = 0;
  std::unique_ptr<NodeSocket> socket_;
  std::map<int, pid_t> processes_;  ///< of the node, by rank
  std::set<int> openers_;           ///< ranks of the node that can open our files
};

}  // namespace partita
