// The C face of collectives: what the arguments of their init calls mean, and the calls (MPI-4, sections 6.13 and 8.8;
// partitioned ones after these).
#include <memory>
#include <utility>
#include <vector>

#include "capi/collective_call.hpp"
#include "capi/report.hpp"

namespace partita::capi {
namespace {

using collective::Kind;

constexpr const char* sendbuf_name = "sendbuf";
constexpr const char* recvbuf_name = "recvbuf";

/// gather and gatherv: `each_received` gives the root's blocks.
template <class EachReceived>
void to_root(CollectiveCall& call, const GivenBuffer& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
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
void from_root(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, MPI_Count recvcount,
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
void to_all(CollectiveCall& call, const GivenBuffer& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
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
void from_all_to_all(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf,
                     const EachSent& each_sent, const EachReceived& each_received) {
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
void between_neighbours(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf,
                        const EachSent& each_sent, const EachReceived& each_received) {
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
void one_block(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf, MPI_Count count,
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

void scattered(CollectiveCall& call, const GivenBuffer& sendbuf, const GivenBuffer& recvbuf,
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

// What each collective gathers of its own arguments.

void bcast(CollectiveCall& call, void* buffer, MPI_Count count, MPI_Datatype datatype, int root) {
  const GivenBuffer given{"buffer", buffer};
  call.set_root(root);
  call.refuse_in_place(given, "");
  auto layout = call.layout("datatype", datatype);
  call.is_root() ? call.add_sent(given, 0, count, layout) : call.add_received(given, 0, count, layout);
}

void gather(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
            MPI_Count recvcount, MPI_Datatype recvtype, int root) {
  to_root(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root,
          [&](const auto& add) { equal(call, "recvtype", call.size(), recvcount, recvtype)(add); });
}

void gatherv(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype, int root) {
  to_root(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root, [&](const auto& add) {
    varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype)(add);
  });
}

void scatter(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             MPI_Count recvcount, MPI_Datatype recvtype, int root) {
  from_root(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root,
            [&](const auto& add) { equal(call, "sendtype", call.size(), sendcount, sendtype)(add); });
}

void scatterv(CollectiveCall& call, const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint displs[],
              MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root) {
  from_root(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root, [&](const auto& add) {
    varying(call, "sendcounts", "displs", "sendtype", call.size(), sendcounts, displs, sendtype)(add);
  });
}

void allgather(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
               MPI_Count recvcount, MPI_Datatype recvtype) {
  to_all(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
         equal(call, "recvtype", call.size(), recvcount, recvtype));
}

void allgatherv(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype) {
  to_all(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
         varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype));
}

void alltoall(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
              MPI_Count recvcount, MPI_Datatype recvtype) {
  from_all_to_all(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
      [&](const auto& add) { equal(call, "sendtype", call.size(), sendcount, sendtype)(add); },
      equal(call, "recvtype", call.size(), recvcount, recvtype));
}

void alltoallv(CollectiveCall& call, const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
               MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
               MPI_Datatype recvtype) {
  from_all_to_all(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
      [&](const auto& add) {
        varying(call, "sendcounts", "sdispls", "sendtype", call.size(), sendcounts, sdispls, sendtype)(add);
      },
      varying(call, "recvcounts", "rdispls", "recvtype", call.size(), recvcounts, rdispls, recvtype));
}

void alltoallw(CollectiveCall& call, const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
               const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
               const MPI_Datatype recvtypes[]) {
  from_all_to_all(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
      [&](const auto& add) {
        typed(call, "sendcounts", "sdispls", "sendtypes", call.size(), sendcounts, sdispls, sendtypes)(add);
      },
      typed(call, "recvcounts", "rdispls", "recvtypes", call.size(), recvcounts, rdispls, recvtypes));
}

void reduce(CollectiveCall& call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
            int root) {
  call.set_root(root);
  one_block(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.is_root(),
            call.is_root());
}

void allreduce(CollectiveCall& call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
               MPI_Op op) {
  one_block(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
}

void reduce_scatter(CollectiveCall& call, const void* sendbuf, void* recvbuf, const MPI_Count recvcounts[],
                    MPI_Datatype datatype, MPI_Op op) {
  call.check_array("recvcounts", call.size(), recvcounts);
  scattered(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, {recvcounts, recvcounts + call.size()}, datatype,
            op);
}

void reduce_scatter_block(CollectiveCall& call, const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                          MPI_Datatype datatype, MPI_Op op) {
  scattered(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
            std::vector<MPI_Count>(static_cast<std::size_t>(call.size()), recvcount), datatype, op);
}

void scan(CollectiveCall& call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op) {
  one_block(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
}

void exscan(CollectiveCall& call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
            MPI_Op op) {
  // Nothing arrives at rank 0.
  one_block(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.problem().rank != 0,
            true);
}

void neighbor_allgather(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype) {
  call.find_neighbours();
  between_neighbours(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                     equal(call, "sendtype", 1, sendcount, sendtype),
                     equal(call, "recvtype", call.source_count(), recvcount, recvtype));
}

void neighbor_allgatherv(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                         void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype) {
  call.find_neighbours();
  between_neighbours(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, equal(call, "sendtype", 1, sendcount, sendtype),
      varying(call, "recvcounts", "displs", "recvtype", call.source_count(), recvcounts, displs, recvtype));
}

void neighbor_alltoall(CollectiveCall& call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                       void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype) {
  call.find_neighbours();
  between_neighbours(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                     equal(call, "sendtype", call.destination_count(), sendcount, sendtype),
                     equal(call, "recvtype", call.source_count(), recvcount, recvtype));
}

void neighbor_alltoallv(CollectiveCall& call, const void* sendbuf, const MPI_Count sendcounts[],
                        const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                        const MPI_Aint rdispls[], MPI_Datatype recvtype) {
  call.find_neighbours();
  between_neighbours(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
      varying(call, "sendcounts", "sdispls", "sendtype", call.destination_count(), sendcounts, sdispls, sendtype),
      varying(call, "recvcounts", "rdispls", "recvtype", call.source_count(), recvcounts, rdispls, recvtype));
}

void neighbor_alltoallw(CollectiveCall& call, const void* sendbuf, const MPI_Count sendcounts[],
                        const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                        const MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype recvtypes[]) {
  call.find_neighbours();
  between_neighbours(
      call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
      typed(call, "sendcounts", "sdispls", "sendtypes", call.destination_count(), sendcounts, sdispls, sendtypes),
      typed(call, "recvcounts", "rdispls", "recvtypes", call.source_count(), recvcounts, rdispls, recvtypes));
}

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

}  // namespace
}  // namespace partita::capi

using namespace partita;
using namespace partita::capi;

#define PARTITA_LIST(...) __VA_ARGS__
#define COLLECTIVE(KIND, NAME, BUFFERS, OTHERS, ARGUMENTS)                                                            \
  int Partita_P##KIND##_init(PARTITA_LIST BUFFERS, int partitions, PARTITA_LIST OTHERS, MPI_Comm comm, MPI_Info info, \
                             Partita_Request* request) {                                                              \
    return init("P" #KIND "_init", Kind::KIND, {partitions, comm, info, request},                                     \
                [&](CollectiveCall& call) { KIND(call, PARTITA_LIST ARGUMENTS); });                                   \
  }                                                                                                                   \
  int Partita_##NAME##_init(PARTITA_LIST BUFFERS, PARTITA_LIST OTHERS, MPI_Comm comm, MPI_Info info,                  \
                            Partita_Request* request) {                                                               \
    return init(#NAME "_init", Kind::KIND, {1, comm, info, request, false},                                           \
                [&](CollectiveCall& call) { KIND(call, PARTITA_LIST ARGUMENTS); });                                   \
  }
#include "capi/collective_calls.inc"
#undef COLLECTIVE
#undef PARTITA_LIST

int Partita_Barrier_init(MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Barrier_init", Kind::barrier, {1, comm, info, request, false}, [](CollectiveCall&) {});
}
