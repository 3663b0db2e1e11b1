// The C++ API: what makes requests. <partita/partita.hpp> includes this.
#ifndef PARTITA_COMMUNICATOR_HPP
#define PARTITA_COMMUNICATOR_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/error.hpp>
#include <partita/request.hpp>

namespace partita {

/// A communicator of the program's, by value. Owns nothing.
class communicator final {
 public:
  explicit communicator(MPI_Comm handle) noexcept : handle_(handle) {}

  [[nodiscard]] MPI_Comm handle() const noexcept { return handle_; }
  [[nodiscard]] int rank() const {
    int rank = 0;
    check(MPI_Comm_rank(handle_, &rank));
    return rank;
  }
  [[nodiscard]] int size() const {
    int size = 0;
    check(MPI_Comm_size(handle_, &size));
    return size;
  }

  /// From now on errors on this communicator, those of MPI calls too, come back as codes; so the calls here throw them.
  /// Errors that concern no communicator are MPI_COMM_SELF's.
  void throw_errors() const { check(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN)); }
  /// Makes a communicator known that is neither MPI_COMM_WORLD nor MPI_COMM_SELF nor the runtime's. Collective.
  void make_known() const { check(Partita_Comm_register(handle_)); }

  // Messages: docs/api/Partita_Send_init.md, Partita_Psend_init.md. Local, never blocking.

  [[nodiscard]] request send_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Send_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request rsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Rsend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request ssend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Ssend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  /// The buffer is in host memory.
  [[nodiscard]] request bsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Bsend_init(buf, count, datatype, dest, tag, handle_, r); });
  }
  [[nodiscard]] request recv_init(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag) const {
    return made([&](Partita_Request* r) { return Partita_Recv_init(buf, count, datatype, source, tag, handle_, r); });
  }
  /// `count` elements a partition.
  [[nodiscard]] request psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest,
                                   int tag, MPI_Info info = MPI_INFO_NULL) const {
    return made([&](Partita_Request* r) {
      return Partita_Psend_init(buf, partitions, count, datatype, dest, tag, handle_, info, r);
    });
  }
  [[nodiscard]] request precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source,
                                   int tag, MPI_Info info = MPI_INFO_NULL) const {
    return made([&](Partita_Request* r) {
      return Partita_Precv_init(buf, partitions, count, datatype, source, tag, handle_, info, r);
    });
  }

  // Partitioned collectives: docs/api/Partita_Pcollective_init.md. Collective, never blocking. A count is that of one
  // partition; arrays have an element for each rank, or for each neighbour.

  [[nodiscard]] request pbcast_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int root,
                                    MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pbcast_init, info, buffer, partitions, count, datatype, root);
  }
  [[nodiscard]] request pgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                     void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                     MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pgather_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcount,
                      recvtype, root);
  }
  [[nodiscard]] request pgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                      void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                      MPI_Datatype recvtype, int root, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pgatherv_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcounts,
                      displs, recvtype, root);
  }
  [[nodiscard]] request pscatter_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                      void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                      MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pscatter_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcount,
                      recvtype, root);
  }
  [[nodiscard]] request pscatterv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                       const MPI_Aint displs[], MPI_Datatype sendtype, void* recvbuf,
                                       MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                       MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pscatterv_init, info, sendbuf, partitions, sendcounts, displs, sendtype, recvbuf,
                      recvcount, recvtype, root);
  }
  [[nodiscard]] request pallgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                        void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                        MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pallgather_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcount,
                      recvtype);
  }
  [[nodiscard]] request pallgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                         MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                         const MPI_Aint displs[], MPI_Datatype recvtype,
                                         MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pallgatherv_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcounts,
                      displs, recvtype);
  }
  [[nodiscard]] request palltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                       void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                       MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Palltoall_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf, recvcount,
                      recvtype);
  }
  [[nodiscard]] request palltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                        const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
                                        MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Palltoallv_init, info, sendbuf, partitions, sendcounts, sdispls, sendtype, recvbuf,
                      recvcounts, rdispls, recvtype);
  }
  [[nodiscard]] request palltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                        const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                        const MPI_Datatype recvtypes[], MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Palltoallw_init, info, sendbuf, partitions, sendcounts, sdispls, sendtypes, recvbuf,
                      recvcounts, rdispls, recvtypes);
  }
  [[nodiscard]] request preduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                     MPI_Datatype datatype, MPI_Op op, int root, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Preduce_init, info, sendbuf, recvbuf, partitions, count, datatype, op, root);
  }
  [[nodiscard]] request pallreduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pallreduce_init, info, sendbuf, recvbuf, partitions, count, datatype, op);
  }
  [[nodiscard]] request preduce_scatter_init(const void* sendbuf, void* recvbuf, int partitions,
                                             const MPI_Count recvcounts[], MPI_Datatype datatype, MPI_Op op,
                                             MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Preduce_scatter_init, info, sendbuf, recvbuf, partitions, recvcounts, datatype, op);
  }
  [[nodiscard]] request preduce_scatter_block_init(const void* sendbuf, void* recvbuf, int partitions,
                                                   MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                                   MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Preduce_scatter_block_init, info, sendbuf, recvbuf, partitions, recvcount, datatype, op);
  }
  [[nodiscard]] request pscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                   MPI_Datatype datatype, MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pscan_init, info, sendbuf, recvbuf, partitions, count, datatype, op);
  }
  [[nodiscard]] request pexscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count,
                                     MPI_Datatype datatype, MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pexscan_init, info, sendbuf, recvbuf, partitions, count, datatype, op);
  }
  [[nodiscard]] request pneighbor_allgather_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                 MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                 MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pneighbor_allgather_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf,
                      recvcount, recvtype);
  }
  [[nodiscard]] request pneighbor_allgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                  MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                                  const MPI_Aint displs[], MPI_Datatype recvtype,
                                                  MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pneighbor_allgatherv_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf,
                      recvcounts, displs, recvtype);
  }
  [[nodiscard]] request pneighbor_alltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount,
                                                MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                                                MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pneighbor_alltoall_init, info, sendbuf, partitions, sendcount, sendtype, recvbuf,
                      recvcount, recvtype);
  }
  [[nodiscard]] request pneighbor_alltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                                 const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                                 const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                 MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pneighbor_alltoallv_init, info, sendbuf, partitions, sendcounts, sdispls, sendtype,
                      recvbuf, recvcounts, rdispls, recvtype);
  }
  [[nodiscard]] request pneighbor_alltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                                 const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                                 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                 const MPI_Datatype recvtypes[], MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Pneighbor_alltoallw_init, info, sendbuf, partitions, sendcounts, sdispls, sendtypes,
                      recvbuf, recvcounts, rdispls, recvtypes);
  }

  // Persistent collectives without partitions: docs/api/Partita_Collective_init.md. The same otherwise.

  [[nodiscard]] request bcast_init(void* buffer, MPI_Count count, MPI_Datatype datatype, int root,
                                   MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Bcast_init, info, buffer, count, datatype, root);
  }
  [[nodiscard]] request gather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                    MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                    MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Gather_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root);
  }
  [[nodiscard]] request gatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                     const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                                     int root, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Gatherv_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
                      root);
  }
  [[nodiscard]] request scatter_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                     MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                     MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Scatter_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root);
  }
  [[nodiscard]] request scatterv_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
                                      MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                      int root, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Scatterv_init, info, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype,
                      root);
  }
  [[nodiscard]] request allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                       MPI_Count recvcount, MPI_Datatype recvtype,
                                       MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Allgather_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  }
  [[nodiscard]] request allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                                        MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Allgatherv_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                      recvtype);
  }
  [[nodiscard]] request alltoall_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                                      MPI_Count recvcount, MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Alltoall_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  }
  [[nodiscard]] request alltoallv_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                       MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                       const MPI_Aint rdispls[], MPI_Datatype recvtype,
                                       MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Alltoallv_init, info, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                      rdispls, recvtype);
  }
  [[nodiscard]] request alltoallw_init(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                                       const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                                       const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                       MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Alltoallw_init, info, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                      rdispls, recvtypes);
  }
  [[nodiscard]] request reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                    MPI_Op op, int root, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Reduce_init, info, sendbuf, recvbuf, count, datatype, op, root);
  }
  [[nodiscard]] request allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                       MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Allreduce_init, info, sendbuf, recvbuf, count, datatype, op);
  }
  [[nodiscard]] request reduce_scatter_init(const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                                            MPI_Datatype datatype, MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Reduce_scatter_init, info, sendbuf, recvbuf, recvcounts, datatype, op);
  }
  [[nodiscard]] request reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                                  MPI_Datatype datatype, MPI_Op op,
                                                  MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Reduce_scatter_block_init, info, sendbuf, recvbuf, recvcount, datatype, op);
  }
  [[nodiscard]] request scan_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                                  MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Scan_init, info, sendbuf, recvbuf, count, datatype, op);
  }
  [[nodiscard]] request exscan_init(const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                                    MPI_Op op, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Exscan_init, info, sendbuf, recvbuf, count, datatype, op);
  }
  [[nodiscard]] request neighbor_allgather_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Neighbor_allgather_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                      recvtype);
  }
  [[nodiscard]] request neighbor_allgatherv_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                                 MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Neighbor_allgatherv_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                      recvtype);
  }
  [[nodiscard]] request neighbor_alltoall_init(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                               void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                               MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Neighbor_alltoall_init, info, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
  }
  [[nodiscard]] request neighbor_alltoallv_init(const void* sendbuf, const MPI_Count sendcounts[],
                                                const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                                const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                MPI_Datatype recvtype, MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Neighbor_alltoallv_init, info, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                      recvcounts, rdispls, recvtype);
  }
  [[nodiscard]] request neighbor_alltoallw_init(const void* sendbuf, const MPI_Count sendcounts[],
                                                const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                                const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                                const MPI_Datatype recvtypes[], MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Neighbor_alltoallw_init, info, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                      recvcounts, rdispls, recvtypes);
  }
  /// Complete once all ranks have started it.
  [[nodiscard]] request barrier_init(MPI_Info info = MPI_INFO_NULL) const {
    return collective(Partita_Barrier_init, info);
  }

 private:
  template <class Init>
  static request made(Init init) {
    Partita_Request handle = PARTITA_REQUEST_NULL;
    check(init(&handle));
    return request(handle);
  }
  /// `init` is a C call whose last arguments are communicator, info and request.
  template <class Init, class... Arguments>
  request collective(Init init, MPI_Info info, Arguments... arguments) const {
    return made([&](Partita_Request* r) { return init(arguments..., handle_, info, r); });
  }

  MPI_Comm handle_;
};

}  // namespace partita
#endif
