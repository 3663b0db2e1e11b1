#include "apps/support/nccl.hpp"

#include <cstdlib>
#include <stdexcept>

#include "apps/support/rank_values.hpp"
#include "apps/support/shared_library.hpp"
#include "apps/support/told_versions.hpp"
#include "apps/support/two_nodes.hpp"

namespace partita::apps {
namespace {

constexpr int success = 0;
constexpr int type_int8 = 0;     // ncclInt8
constexpr int type_int32 = 2;    // ncclInt32
constexpr int type_float64 = 8;  // ncclFloat64
constexpr int sum = 0;           // ncclSum

/// Tells NCCL, before its start, that the ranks of each node that Partita sees are on a host of their own. What the
/// user has set stays.
void name_node(MPI_Comm comm) {
  MPI_Comm node = split_by_node(comm);
  int first = 0;
  MPI_Comm_rank(comm, &first);
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, node);
  MPI_Comm_free(&node);
  setenv("NCCL_HOSTID", ("partita-node-" + std::to_string(first)).c_str(), 0);
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& wanted_by, const std::string& path) {
  // Send and receive do not use NVLink's multicast, and setting it up asks for rights on the whole host.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  const SharedLibrary library(wanted_by, libraries_to_try(path, "NCCL_LIBRARY", {"libnccl.so.2", "libnccl.so"}));
  library.take("ncclGetVersion", get_version);
  library.take("ncclGetUniqueId", get_unique_id);
  library.take("ncclCommInitRank", comm_init_rank);
  library.take("ncclCommDestroy", comm_destroy);
  library.take("ncclGroupStart", group_start);
  library.take("ncclGroupEnd", group_end);
  library.take("ncclSend", send);
  library.take("ncclRecv", recv);
  library.take("ncclAllReduce", all_reduce);
  library.take("ncclAllGather", all_gather);
  library.take("ncclReduceScatter", reduce_scatter);
  library.take("ncclBroadcast", broadcast);
  library.take("ncclGetErrorString", get_error_string);
}

void NcclLibrary::check(int code, const char* call) const {
  if (code == success) return;
  throw std::runtime_error(std::string(call) + " failed: " + get_error_string(code) + ".");
}

Nccl::Nccl(const NcclLibrary& library, MPI_Comm comm) : library_(library) {
  if (nodes_of_a_machine() > 1) name_node(comm);
  int ranks = 1, rank = 0;
  MPI_Comm_size(comm, &ranks);
  MPI_Comm_rank(comm, &rank);
  NcclLibrary::UniqueId id{};
  if (rank == 0) library_.check(library_.get_unique_id(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof(id), MPI_CHAR, 0, comm);
  library_.check(library_.comm_init_rank(&comm_, ranks, id, rank), "ncclCommInitRank");
  int version = 0;
  library_.check(library_.get_version(&version), "ncclGetVersion");
  tell_version("nccl", nccl_version(version));
}

Nccl::~Nccl() {
  library_.comm_destroy(comm_);
}

void Nccl::begin_group() {
  library_.check(library_.group_start(), "ncclGroupStart");
}
void Nccl::end_group() {
  library_.check(library_.group_end(), "ncclGroupEnd");
}
void Nccl::send(const void* data, std::size_t size_bytes, int peer, cudaStream_t stream) {
  library_.check(library_.send(data, size_bytes, type_int8, peer, comm_, stream), "ncclSend");
}
void Nccl::receive(void* data, std::size_t size_bytes, int peer, cudaStream_t stream) {
  library_.check(library_.recv(data, size_bytes, type_int8, peer, comm_, stream), "ncclRecv");
}
void Nccl::all_reduce_sum(const int* sent, int* received, std::size_t count, cudaStream_t stream) {
  library_.check(library_.all_reduce(sent, received, count, type_int32, sum, comm_, stream), "ncclAllReduce");
}
void Nccl::all_reduce_sum(const double* sent, double* received, std::size_t count, cudaStream_t stream) {
  library_.check(library_.all_reduce(sent, received, count, type_float64, sum, comm_, stream), "ncclAllReduce");
}
void Nccl::all_gather(const int* sent, int* received, std::size_t count, cudaStream_t stream) {
  library_.check(library_.all_gather(sent, received, count, type_int32, comm_, stream), "ncclAllGather");
}
void Nccl::reduce_scatter_sum(const int* sent, int* received, std::size_t count, cudaStream_t stream) {
  library_.check(library_.reduce_scatter(sent, received, count, type_int32, sum, comm_, stream), "ncclReduceScatter");
}
void Nccl::broadcast(int* data, std::size_t count, int root, cudaStream_t stream) {
  library_.check(library_.broadcast(data, data, count, type_int32, root, comm_, stream), "ncclBroadcast");
}

std::optional<std::string> NcclMode::problem() {
  if (shares_gpu_) return "mode nccl needs a GPU for each rank, but several ranks share one";
  std::string problem;
  try {
    if (!library_)
      library_ =
          std::make_unique<NcclLibrary>("mode nccl (--nccl or NCCL_LIBRARY gives the path of the library)", path_);
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  if (!on_any_rank(comm_, !problem.empty())) return std::nullopt;
  return problem.empty() ? "mode nccl: another rank cannot load NCCL" : problem;
}

Nccl& NcclMode::get() {
  if (!nccl_) nccl_ = std::make_unique<Nccl>(*library_, comm_);
  return *nccl_;
}

}  // namespace partita::apps
