#include "bench/tune/collectives.hpp"

#include <vector>

namespace partita::bench::tune {

namespace {

MPI_Datatype type() {
  return MPI_INT32_T;
}

/// The counts and displacements of equal blocks, as the MPI's and Partita's calls take them.
template <class Count, class Displacement>
struct Equal {
  explicit Equal(const Buffers& b) {
    for (int rank = 0; rank < b.ranks; ++rank) {
      counts.push_back(b.count);
      displacements.push_back(static_cast<Displacement>(b.count) * rank);
    }
  }
  std::vector<Count> counts;
  std::vector<Displacement> displacements;
};
using OfPartita = Equal<MPI_Count, MPI_Aint>;
using OfMpi = Equal<int, int>;

constexpr TunedCollective all[] = {
    {Kind::bcast,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Bcast_init(b.received, b.count, type(), 0, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) { return PMPI_Bcast(b.received, b.count, type(), 0, comm); }},
    {Kind::gather,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Gather_init(b.sent, b.count, type(), b.received, b.count, type(), 0, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Gather(b.sent, b.count, type(), b.received, b.count, type(), 0, comm);
     }},
    {Kind::scatter,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Scatter_init(b.sent, b.count, type(), b.received, b.count, type(), 0, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Scatter(b.sent, b.count, type(), b.received, b.count, type(), 0, comm);
     }},
    {Kind::allgather,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Allgather_init(b.sent, b.count, type(), b.received, b.count, type(), comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Allgather(b.sent, b.count, type(), b.received, b.count, type(), comm);
     }},
    {Kind::allgatherv,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       const OfPartita equal(b);
       return Partita_Allgatherv_init(b.sent, b.count, type(), b.received, equal.counts.data(),
                                      equal.displacements.data(), type(), comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       const OfMpi equal(b);
       return PMPI_Allgatherv(b.sent, b.count, type(), b.received, equal.counts.data(), equal.displacements.data(),
                              type(), comm);
     }},
    {Kind::alltoall,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Alltoall_init(b.sent, b.count, type(), b.received, b.count, type(), comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Alltoall(b.sent, b.count, type(), b.received, b.count, type(), comm);
     }},
    {Kind::reduce,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Reduce_init(b.sent, b.received, b.count, type(), MPI_SUM, 0, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Reduce(b.sent, b.received, b.count, type(), MPI_SUM, 0, comm);
     }},
    {Kind::allreduce,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Allreduce_init(b.sent, b.received, b.count, type(), MPI_SUM, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Allreduce(b.sent, b.received, b.count, type(), MPI_SUM, comm);
     }},
    {Kind::reduce_scatter,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       const OfPartita equal(b);
       return Partita_Reduce_scatter_init(b.sent, b.received, equal.counts.data(), type(), MPI_SUM, comm, info,
                                          request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       const OfMpi equal(b);
       return PMPI_Reduce_scatter(b.sent, b.received, equal.counts.data(), type(), MPI_SUM, comm);
     }},
    {Kind::reduce_scatter_block,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Reduce_scatter_block_init(b.sent, b.received, b.count, type(), MPI_SUM, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) {
       return PMPI_Reduce_scatter_block(b.sent, b.received, b.count, type(), MPI_SUM, comm);
     }},
    {Kind::scan,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Scan_init(b.sent, b.received, b.count, type(), MPI_SUM, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) { return PMPI_Scan(b.sent, b.received, b.count, type(), MPI_SUM, comm); }},
    {Kind::exscan,
     [](const Buffers& b, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
       return Partita_Exscan_init(b.sent, b.received, b.count, type(), MPI_SUM, comm, info, request);
     },
     [](const Buffers& b, MPI_Comm comm) { return PMPI_Exscan(b.sent, b.received, b.count, type(), MPI_SUM, comm); }},
};

}  // namespace

std::span<const TunedCollective> tuned_collectives() {
  return all;
}

}  // namespace partita::bench::tune
