// Collectives of ints whose epochs kernels open: their requests, what ranks send in an epoch, and what comes of it.
#pragma once

#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

namespace partita::test {

enum class Kind { allreduce, allgather, reduce_scatter, alltoall, bcast };
inline constexpr Kind kinds[] = {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall, Kind::bcast};
inline const char* name_of(Kind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};
  return names[static_cast<int>(kind)];
}

/// One collective of ints, as a kernel sees it.
struct Seen {
  MPIX_Prequest prequest;
  Kind kind;
  int rank, ranks, count;
  int* sent;
  const int* received;
};

/// Element `i` of what `from` has for `to`.
__host__ __device__ inline int value(int from, int to, int epoch, int i) {
  return 1000000 * (epoch % 1000) + 100000 * from + 10000 * to + i % 9973;
}

__device__ inline int wanted(const Seen& seen, int block, int epoch, int i) {
  switch (seen.kind) {
    case Kind::bcast:
      return value(0, 0, epoch, i);
    case Kind::allgather:
      return value(block, 0, epoch, i);
    case Kind::alltoall:
      return value(block, seen.rank, epoch, i);
    default:
      int sum = 0;
      for (int r = 0; r < seen.ranks; ++r) sum += value(r, seen.kind == Kind::allreduce ? 0 : seen.rank, epoch, i);
      return sum;
  }
}

inline int init_collective(Kind kind, int* in, int* out, int count, MPI_Info info, Partita_Request* request) {
  switch (kind) {
    case Kind::allreduce:
      return Partita_Pallreduce_init(in, out, 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, request);
    case Kind::allgather:
      return Partita_Pallgather_init(in, 1, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, info, request);
    case Kind::reduce_scatter:
      return Partita_Preduce_scatter_block_init(in, out, 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, request);
    case Kind::alltoall:
      return Partita_Palltoall_init(in, 1, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, info, request);
    default:
      return Partita_Pbcast_init(in, 1, count, MPI_INT, 0, MPI_COMM_WORLD, info, request);
  }
}
/// A request whose epochs kernels open.
inline int init_device_driven(Kind kind, int* in, int* out, int count, const char* algorithm,
                              Partita_Request* request) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  PMPI_Info_set(info, "partita_algorithm", algorithm);
  const int code = init_collective(kind, in, out, count, info, request);
  PMPI_Info_free(&info);
  return code;
}

}  // namespace partita::test
