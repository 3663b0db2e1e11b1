// NCCL, loaded when it is asked for: the program neither needs it nor was built with it.
#pragma once

#include <cuda_runtime_api.h>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace partita::apps {

/// The calls of NCCL that are used, by its ABI of version 2.
class NcclLibrary {
 public:
  struct UniqueId {
    char bytes[128];
  };
  using Comm = struct NcclCommunicator*;

  /// Tries `path`; where that is empty $NCCL_LIBRARY, else libnccl.so.2 and libnccl.so where the loader looks. Throws
  /// std::runtime_error with a sentence that begins with `wanted_by` if none is there.
  NcclLibrary(const std::string& wanted_by, const std::string& path);

  int (*get_version)(int*);
  int (*get_unique_id)(UniqueId*);
  int (*comm_init_rank)(Comm*, int ranks, UniqueId, int rank);
  int (*comm_destroy)(Comm);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, std::size_t count, int type, int peer, Comm, cudaStream_t);
  int (*recv)(void*, std::size_t count, int type, int peer, Comm, cudaStream_t);
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int operation, Comm, cudaStream_t);
  int (*all_gather)(const void*, void*, std::size_t count, int type, Comm, cudaStream_t);
  int (*reduce_scatter)(const void*, void*, std::size_t count, int type, int operation, Comm, cudaStream_t);
  int (*broadcast)(const void*, void*, std::size_t count, int type, int root, Comm, cudaStream_t);
  const char* (*get_error_string)(int);

  /// Throws std::runtime_error that names `call` unless `code` is success.
  void check(int code, const char* call) const;
};

/// The ranks of an MPI communicator as NCCL sees them, on their current devices.
class Nccl {
 public:
  /// Collective over `comm`. Where Partita takes a machine for several nodes (PARTITA_NODES), NCCL is told of them.
  Nccl(const NcclLibrary& library, MPI_Comm comm);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// What lies between the two goes out together.
  void begin_group();
  void end_group();
  /// In the order of `stream`.
  void send(const void* data, std::size_t size_bytes, int peer, cudaStream_t stream);
  void receive(void* data, std::size_t size_bytes, int peer, cudaStream_t stream);
  /// Collectives of ints, and of doubles, in the order of `stream`. Where a buffer has a block for each rank, `count`
  /// is that of one block.
  void all_reduce_sum(const int* sent, int* received, std::size_t count, cudaStream_t stream);
  void all_reduce_sum(const double* sent, double* received, std::size_t count, cudaStream_t stream);
  void all_gather(const int* sent, int* received, std::size_t count, cudaStream_t stream);
  void reduce_scatter_sum(const int* sent, int* received, std::size_t count, cudaStream_t stream);
  void broadcast(int* data, std::size_t count, int root, cudaStream_t stream);

 private:
  NcclLibrary library_;
  NcclLibrary::Comm comm_ = nullptr;
};

/// NCCL for an app's mode nccl: loaded when the mode is asked for, set up when it runs.
class NcclMode {
 public:
  /// `shares_gpu`: whether any two ranks of `comm` do. `path`: of the library; empty: the usual names.
  NcclMode(MPI_Comm comm, bool shares_gpu, std::string path)
      : comm_(comm), shares_gpu_(shares_gpu), path_(std::move(path)) {}

  /// Why the mode cannot run in this job, as a sentence, on every rank; nothing if it can. Collective.
  std::optional<std::string> problem();
  /// After problem() had nothing to say. Collective the first time.
  Nccl& get();

 private:
  MPI_Comm comm_;
  bool shares_gpu_;
  std::string path_;
  std::unique_ptr<NcclLibrary> library_;
  std::unique_ptr<Nccl> nccl_;
};

}  // namespace partita::apps
