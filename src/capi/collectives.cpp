// The C face of partitioned collectives: the 21 init calls (after MPI-4, sections 6.13 and 8.8).
#include <memory>
#include <utility>
#include <vector>

#include "capi/collective_call.hpp"
#include "capi/report.hpp"

namespace partita::capi {
namespace {

using collective::Kind;

template <class Body>
int init(const char* call, Kind kind, const CommonArguments& common, Body body) noexcept {
  return guarded(
      call, [&] { return common.comm == MPI_COMM_NULL ? MPI_COMM_SELF : common.comm; },
      [&] {
        CollectiveCall gathered(kind, common);
        body(gathered);
        gathered.make();
      });
}

constexpr const char* sendbuf_name = "sendbuf";
constexpr const char* recvbuf_name = "recvbuf";

/// gather and gatherv: `each_received` gives the root's blocks.
template <class EachReceived>
void gather(CollectiveCall& call, const GivenBuffer& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
            const GivenBuffer& recvbuf, int root, const EachReceived& each_received) {
  call.set_root(root);
  if (call.is_root()) {
    call.refuse_in_place(recvbuf, "");
    each_received([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
      call.add_received(recvbuf, offset, count, layout);
    });
  }
  if (!sendbuf.in_place()) {
    auto layout = call.layout("sendtype", sendtype);
    return call.add_sent(sendbuf, 0, sendcount, std::move(layout));
  }
  if (!call.is_root()) call.refuse_in_place(sendbuf, "; only the root has it");
  call.set_in_place();
  each_received([&](int block, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    if (block == root) call.add_sent(recvbuf, offset, count, layout);
  });
}

template <class EachSent>
void scatter(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, MPI_Count recvcount,
             MPI_Datatype recvtype, int root, const EachSent& each_sent) {
  call.set_root(root);
  if (call.is_root()) {
    call.refuse_in_place(sendbuf, "");
    each_sent([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
      call.add_sent(sendbuf, offset, count, layout);
    });
  }
  if (recvbuf.in_place()) {
    if (!call.is_root()) call.refuse_in_place(recvbuf, "; only the root has it");
    return call.set_in_place();
  }
  auto layout = call.layout("recvtype", recvtype);
  call.add_received(recvbuf, 0, recvcount, std::move(layout));
}

/// Where each rank has its own block of every rank's receive buffer.
template <class EachReceived>
void allgather(CollectiveCall& call, const GivenBuffer& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
               const GivenBuffer& recvbuf, const EachReceived& each_received) {
  call.refuse_in_place(recvbuf, "");
  const bool in_place = sendbuf.in_place();
  if (in_place) call.set_in_place();
  each_received([&](int block, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    call.add_received(recvbuf, offset, count, layout);
    if (in_place && block == call.problem().rank) call.add_sent(recvbuf, offset, count, layout);
  });
  if (in_place) return;
  auto layout = call.layout("sendtype", sendtype);
  call.add_sent(sendbuf, 0, sendcount, std::move(layout));
}

template <class EachSent, class EachReceived>
void alltoall(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, const EachSent& each_sent,
              const EachReceived& each_received) {
  call.refuse_in_place(recvbuf, "");
  const bool in_place = sendbuf.in_place();
  if (in_place) call.set_in_place();
  each_received([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    call.add_received(recvbuf, offset, count, layout);
    if (in_place) call.add_sent(recvbuf, offset, count, layout);
  });
  if (in_place) return;
  each_sent([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    call.add_sent(sendbuf, offset, count, layout);
  });
}

template <class EachSent, class EachReceived>
void neighbours(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, const EachSent& each_sent,
                const EachReceived& each_received) {
  call.refuse_in_place(sendbuf, ": neighbourhood collectives have no such form");
  call.refuse_in_place(recvbuf, "");
  each_sent([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    call.add_sent(sendbuf, offset, count, layout);
  });
  each_received([&](int, MPI_Aint offset, MPI_Count count, const std::shared_ptr<const Layout>& layout) {
    call.add_received(recvbuf, offset, count, layout);
  });
}

/// Block by block, calls add(block, offset, count, layout): `blocks` equal ones.
auto equal(CollectiveCall& call, const char* type_name, int blocks, MPI_Count count, MPI_Datatype datatype) {
  auto layout = call.layout(type_name, datatype);
  return [&call, blocks, count, layout](const auto& add) {
    for (int b = 0; b < blocks; ++b)
      add(b, CollectiveCall::product(b, call.block_extent(count, *layout)), count, layout);
  };
}

/// Each block has a size and a place of its own, both in elements.
auto varying(CollectiveCall& call, const char* counts_name, const char* displacements_name, const char* type_name,
             int blocks, const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype datatype) {
  auto layout = call.layout(type_name, datatype);
  call.check_array(counts_name, blocks, counts);
  call.check_array(displacements_name, blocks, displacements);
  return [=](const auto& add) {
    for (int b = 0; b < blocks; ++b) {
      add(b, CollectiveCall::product(displacements[b], layout->extent_bytes()), counts[b], layout);
    }
  };
}

/// And of types of their own, in bytes.
auto typed(CollectiveCall& call, const char* counts_name, const char* displacements_name, const char* types_name,
           int blocks, const MPI_Count counts[], const MPI_Aint displacements[], const MPI_Datatype datatypes[]) {
  call.check_array(counts_name, blocks, counts);
  call.check_array(displacements_name, blocks, displacements);
  call.check_array(types_name, blocks, datatypes);
  std::vector<std::shared_ptr<const Layout>> layouts;
  layouts.reserve(static_cast<std::size_t>(blocks));
  for (int b = 0; b < blocks; ++b) layouts.push_back(call.layout(types_name, datatypes[b]));
  return [=](const auto& add) {
    for (int b = 0; b < blocks; ++b) add(b, displacements[b], counts[b], layouts[static_cast<std::size_t>(b)]);
  };
}

/// reduce, allreduce, scan and exscan: one block each, received where `receives`; `may_be_in_place` where the receive
/// buffer counts.
void reduce(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, MPI_Count count,
            MPI_Datatype datatype, MPI_Op op, bool receives, bool may_be_in_place) {
  const auto layout = call.reduce_with(op, datatype);
  if (receives) {
    call.refuse_in_place(recvbuf, "");
    call.add_received(recvbuf, 0, count, layout);
  }
  if (sendbuf.in_place()) {
    if (!may_be_in_place) call.refuse_in_place(sendbuf, "; only the root has it");
    call.set_in_place();
  }
  call.add_sent(sendbuf.in_place() ? recvbuf : sendbuf, 0, count, layout);
}

void reduce_scatter(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf,
                    const std::vector<MPI_Count>& counts, MPI_Datatype datatype, MPI_Op op) {
  const auto layout = call.reduce_with(op, datatype);
  call.refuse_in_place(recvbuf, "");
  const MPI_Count own = counts[static_cast<std::size_t>(call.problem().rank)];
  if (sendbuf.in_place()) call.set_in_place();
  MPI_Aint offset = 0;
  for (const MPI_Count count : counts) {
    call.add_sent(sendbuf.in_place() ? recvbuf : sendbuf, offset, count, layout);
    call.problem().scattered.push_back(call.problem().sent.back());
    offset = CollectiveCall::sum(offset, call.block_extent(count, *layout));
  }
  call.add_received(recvbuf, 0, own, layout);
}

}  // namespace
}  // namespace partita::capi

using namespace partita;
using namespace partita::capi;

int Partita_Pbcast_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                        MPI_Info info, Partita_Request* request) {
  return init("Pbcast_init", Kind::bcast, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    const GivenBuffer given{"buffer", buffer};
    call.set_root(root);
    call.refuse_in_place(given, "");
    auto layout = call.layout("datatype", datatype);
    call.is_root() ? call.add_sent(given, 0, count, layout) : call.add_received(given, 0, count, layout);
  });
}

int Partita_Pgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                         Partita_Request* request) {
  return init("Pgather_init", Kind::gather, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    gather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root,
           [&](const auto& add) { equal(call, "recvtype", call.size(), recvcount, recvtype)(add); });
  });
}

int Partita_Pgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                          void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                          int root, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pgatherv_init", Kind::gatherv, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    gather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root, [&](const auto& add) {
      varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype)(add);
    });
  });
}

int Partita_Pscatter_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                          void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                          MPI_Info info, Partita_Request* request) {
  return init("Pscatter_init", Kind::scatter, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root,
            [&](const auto& add) { equal(call, "sendtype", call.size(), sendcount, sendtype)(add); });
  });
}

int Partita_Pscatterv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[], const MPI_Aint displs[],
                           MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                           MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pscatterv_init", Kind::scatterv, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root, [&](const auto& add) {
      varying(call, "sendcounts", "displs", "sendtype", call.size(), sendcounts, displs, sendtype)(add);
    });
  });
}

int Partita_Pallgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                            void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                            Partita_Request* request) {
  return init("Pallgather_init", Kind::allgather, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    allgather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
              equal(call, "recvtype", call.size(), recvcount, recvtype));
  });
}

int Partita_Pallgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                             MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pallgatherv_init", Kind::allgatherv, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    allgather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
              varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype));
  });
}

int Partita_Palltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                           void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                           Partita_Request* request) {
  return init("Palltoall_init", Kind::alltoall, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    alltoall(
        call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
        [&](const auto& add) { equal(call, "sendtype", call.size(), sendcount, sendtype)(add); },
        equal(call, "recvtype", call.size(), recvcount, recvtype));
  });
}

int Partita_Palltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                            MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                            const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                            Partita_Request* request) {
  return init("Palltoallv_init", Kind::alltoallv, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    alltoall(
        call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
        [&](const auto& add) {
          varying(call, "sendcounts", "sdispls", "sendtype", call.size(), sendcounts, sdispls, sendtype)(add);
        },
        varying(call, "recvcounts", "rdispls", "recvtype", call.size(), recvcounts, rdispls, recvtype));
  });
}

int Partita_Palltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                            const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                            Partita_Request* request) {
  return init("Palltoallw_init", Kind::alltoallw, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    alltoall(
        call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
        [&](const auto& add) {
          typed(call, "sendcounts", "sdispls", "sendtypes", call.size(), sendcounts, sdispls, sendtypes)(add);
        },
        typed(call, "recvcounts", "rdispls", "recvtypes", call.size(), recvcounts, rdispls, recvtypes));
  });
}

int Partita_Preduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, int root, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Preduce_init", Kind::reduce, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    call.set_root(root);
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.is_root(), call.is_root());
  });
}

int Partita_Pallreduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                            MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pallreduce_init", Kind::allreduce, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
  });
}

int Partita_Preduce_scatter_init(const void* sendbuf, void* recvbuf, int partitions, const MPI_Count recvcounts[],
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                 Partita_Request* request) {
  return init("Preduce_scatter_init", Kind::reduce_scatter, {partitions, comm, info, request},
              [&](CollectiveCall& call) {
                call.check_array("recvcounts", call.size(), recvcounts);
                reduce_scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                               {recvcounts, recvcounts + call.size()}, datatype, op);
              });
}

int Partita_Preduce_scatter_block_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                       Partita_Request* request) {
  return init("Preduce_scatter_block_init", Kind::reduce_scatter_block, {partitions, comm, info, request},
              [&](CollectiveCall& call) {
                reduce_scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                               std::vector<MPI_Count>(static_cast<std::size_t>(call.size()), recvcount), datatype, op);
              });
}

int Partita_Pscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pscan_init", Kind::scan, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
  });
}

int Partita_Pexscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pexscan_init", Kind::exscan, {partitions, comm, info, request}, [&](CollectiveCall& call) {
    // Nothing arrives at rank 0.
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.problem().rank != 0, true);
  });
}

int Partita_Pneighbor_allgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                     void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                     MPI_Info info, Partita_Request* request) {
  return init("Pneighbor_allgather_init", Kind::neighbor_allgather, {partitions, comm, info, request},
              [&](CollectiveCall& call) {
                call.find_neighbours();
                neighbours(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                           equal(call, "sendtype", 1, sendcount, sendtype),
                           equal(call, "recvtype", call.source_count(), recvcount, recvtype));
              });
}

int Partita_Pneighbor_allgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                      void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                      MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init(
      "Pneighbor_allgatherv_init", Kind::neighbor_allgatherv, {partitions, comm, info, request},
      [&](CollectiveCall& call) {
        call.find_neighbours();
        neighbours(
            call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, equal(call, "sendtype", 1, sendcount, sendtype),
            varying(call, "recvcounts", "displs", "recvtype", call.source_count(), recvcounts, displs, recvtype));
      });
}

int Partita_Pneighbor_alltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                    void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                    MPI_Info info, Partita_Request* request) {
  return init("Pneighbor_alltoall_init", Kind::neighbor_alltoall, {partitions, comm, info, request},
              [&](CollectiveCall& call) {
                call.find_neighbours();
                neighbours(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                           equal(call, "sendtype", call.destination_count(), sendcount, sendtype),
                           equal(call, "recvtype", call.source_count(), recvcount, recvtype));
              });
}

int Partita_Pneighbor_alltoallv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                     const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                     const MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
                                     MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init(
      "Pneighbor_alltoallv_init", Kind::neighbor_alltoallv, {partitions, comm, info, request},
      [&](CollectiveCall& call) {
        call.find_neighbours();
        neighbours(
            call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
            varying(call, "sendcounts", "sdispls", "sendtype", call.destination_count(), sendcounts, sdispls, sendtype),
            varying(call, "recvcounts", "rdispls", "recvtype", call.source_count(), recvcounts, rdispls, recvtype));
      });
}

int Partita_Pneighbor_alltoallw_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[],
                                     const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                     const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                     const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                     Partita_Request* request) {
  return init(
      "Pneighbor_alltoallw_init", Kind::neighbor_alltoallw, {partitions, comm, info, request},
      [&](CollectiveCall& call) {
        call.find_neighbours();
        neighbours(
            call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
            typed(call, "sendcounts", "sdispls", "sendtypes", call.destination_count(), sendcounts, sdispls, sendtypes),
            typed(call, "recvcounts", "rdispls", "recvtypes", call.source_count(), recvcounts, rdispls, recvtypes));
      });
}
