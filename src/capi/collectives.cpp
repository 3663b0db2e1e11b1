// The C face of partitioned collectives: the 21 init calls (after MPI-4, sections 6.13 and 8.8).
#include <algorithm>
#include <memory>

#include "capi/arguments.hpp"
#include "capi/info.hpp"
#include "capi/operators.hpp"
#include "capi/report.hpp"
#include "capi/small_floats.hpp"
#include "capi/state.hpp"
#include "collective/collective.hpp"
#include "core/mpi_check.hpp"

namespace partita::capi {
namespace {

using collective::Block;
using collective::CollectiveArguments;
using collective::Form;
using collective::Kind;
using collective::Problem;

/// What all init calls are given.
struct Common {
  int partitions;
  MPI_Comm comm;
  MPI_Info info;
  Partita_Request* request;
};

constexpr InfoKey<CollectiveArguments> collective_info_keys[] = {
    {"partita_link",
     [](const std::string& value, CollectiveArguments& arguments) { arguments.link = checked_link(value); }},
    {"partita_algorithm",
     [](const std::string& value, CollectiveArguments& arguments) { arguments.algorithm = value; }},
    {"partita_driver",
     [](const std::string& value, CollectiveArguments&) {
       if (value == "host") return;
       throw Error(ErrorClass::info_value,
                   "info key partita_driver is \"{}\"; expected of a collective is host, since kernels cannot open its "
                   "epochs yet",
                   value);
     }},
};

/// One buffer of the program, as the call names it.
struct Given {
  const char* name;
  const void* address;

  bool in_place() const { return address == MPI_IN_PLACE; }
};

/// Gathers the arguments of one init call. Members throw Error on what is wrong.
class Call {
 public:
  Call(Kind kind, const Common& common) : runtime_(runtime()), common_(common) {
    check_output(common.request, "request");
    arguments_.communicator = runtime_.communicators.find(common.comm);
    int is_inter = 0;
    PARTITA_MPI(Comm_test_inter(common.comm, &is_inter));
    if (is_inter != 0) {
      throw Error(ErrorClass::comm, "argument comm is an intercommunicator; expected is an intracommunicator");
    }
    if (common.partitions < 1) {
      throw Error(ErrorClass::arg, "argument partitions is {}; expected is a number from 1", common.partitions);
    }
    arguments_.partitions = common.partitions;
    arguments_.world_ranks = arguments_.communicator->members(runtime_.world);
    for (std::size_t rank = 0; rank < arguments_.world_ranks.size(); ++rank) {
      if (arguments_.world_ranks[rank] != MPI_UNDEFINED) continue;
      throw Error(ErrorClass::comm, "rank {} of argument comm is a process that Partita was not initialised with",
                  rank);
    }
    problem().kind = kind;
    PARTITA_MPI(Comm_rank(common.comm, &problem().rank));
    problem().size = static_cast<int>(arguments_.world_ranks.size());
    arguments_.link = runtime_.settings.link;
    apply_info(common.info, collective_info_keys, arguments_);
  }

  Problem& problem() { return arguments_.problem; }
  int size() { return problem().size; }
  bool is_root() { return problem().rank == problem().root; }
  int source_count() { return static_cast<int>(problem().sources.size()); }
  int destination_count() { return static_cast<int>(problem().destinations.size()); }

  void set_root(int root) {
    if (root < 0 || root >= size()) {
      throw Error(ErrorClass::root, "argument root is {}; expected is 0 to {}", root, size() - 1);
    }
    problem().root = root;
  }
  void refuse_in_place(const Given& buffer, const char* why) const {
    if (buffer.in_place()) {
      throw Error(ErrorClass::buffer, "argument {} is MPI_IN_PLACE; expected is a buffer{}", buffer.name, why);
    }
  }
  void set_in_place() { problem().in_place = true; }

  std::shared_ptr<const Layout> layout(const char* name, MPI_Datatype datatype) {
    check_datatype(runtime_, name, datatype);
    return std::make_shared<const Layout>(Layout::of(datatype));
  }
  /// ⊕, and the datatype that it takes.
  std::shared_ptr<const Layout> reduce_with(MPI_Op op, MPI_Datatype datatype) {
    auto layout = this->layout("datatype", datatype);
    const bool is_predefined = check_operator(op, datatype);
    MPI_Count lower = 0;
    MPI_Count extent = 0;
    MPI_Count true_lower = 0;
    MPI_Count true_extent = 0;
    PARTITA_MPI(Type_get_extent_x(datatype, &lower, &extent));
    PARTITA_MPI(Type_get_true_extent_x(datatype, &true_lower, &true_extent));
    if (lower != 0 || true_lower < 0 || true_lower + true_extent > extent) {
      throw Error(ErrorClass::type,
                  "argument datatype has bytes outside its extent or a lower bound of {}; expected is a datatype of a "
                  "reduction whose elements lie side by side from 0 on",
                  lower);
    }
    int commutes = 0;
    PARTITA_MPI(Op_commutative(op, &commutes));
    problem().commutative = commutes != 0;
    problem().unit_bytes = std::max<std::int64_t>(layout->extent_bytes(), 1);
    arguments_.form = Form::in_gaps;
    arguments_.reduction = {op, datatype, is_predefined ? small_float_of(datatype) : collective::SmallFloat::none};
    return layout;
  }

  /// A block at `offset` bytes of `buffer`, which this rank sends or receives.
  void add_sent(const Given& buffer, MPI_Aint offset, MPI_Count count, std::shared_ptr<const Layout> layout) {
    problem().sent.push_back(add(arguments_.sent, buffer, offset, count, std::move(layout)));
  }
  void add_received(const Given& buffer, MPI_Aint offset, MPI_Count count, std::shared_ptr<const Layout> layout) {
    problem().received.push_back(add(arguments_.received, buffer, offset, count, std::move(layout)));
  }
  void check_array(const char* name, int length, const void* array) const {
    if (length > 0 && array == nullptr) {
      throw Error(ErrorClass::arg, "argument {} is null; expected are {} entries", name, length);
    }
  }
  /// The extent of a block: the slices of all partitions.
  MPI_Aint block_extent(MPI_Count count, const Layout& layout) const {
    return product(product(common_.partitions, count), layout.extent_bytes());
  }
  static std::int64_t product(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
      throw Error(ErrorClass::count, "a buffer spans more bytes than 2^63 - 1: {} times {}", a, b);
    }
    return result;
  }
  static std::int64_t sum(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
      throw Error(ErrorClass::count, "a buffer spans more bytes than 2^63 - 1: {} and {}", a, b);
    }
    return result;
  }

  void find_neighbours();

  void make() {
    auto made = std::make_unique<collective::Collective>(runtime_.services, std::move(arguments_));
    const Partita_Request handle = handle_of(*made);
    runtime_.operations.add(std::move(made));
    *common_.request = handle;
  }

 private:
  /// All buffers lie in host memory, or all in that of one GPU.
  void check_place(const char* name, const memory::Place& place, const Layout& layout) {
    const bool is_gpu = !memory::is_host(place.kind);
    if (is_gpu && !layout.contiguous()) {
      throw Error(ErrorClass::type,
                  "argument {} is GPU memory and its datatype has gaps, which Partita cannot pack there yet; expected "
                  "is a contiguous datatype or host memory",
                  name);
    }
    if (first_name_ == nullptr) {
      first_name_ = name;
      first_place_ = place;
    }
    if (is_gpu == !memory::is_host(first_place_.kind) && place.device == first_place_.device) return;
    throw Error(ErrorClass::buffer,
                "argument {} is {}, but argument {} is {}; expected are buffers of a rank all in host memory or all in "
                "the memory of one GPU",
                name, described(place), first_name_, described(first_place_));
  }
  static std::string described(const memory::Place& place) {
    return memory::is_host(place.kind) ? "host memory" : fmt::format("memory of GPU {}", place.device);
  }

  /// Returns the bytes of a slice.
  std::int64_t add(std::vector<Block>& blocks, const Given& buffer, MPI_Aint offset, MPI_Count count,
                   std::shared_ptr<const Layout> layout) {
    if (count < 0)
      throw Error(ErrorClass::count, "a count of argument {} is {}; expected is 0 or more", buffer.name, count);
    const std::int64_t element = arguments_.form == Form::packed ? layout->size_bytes() : layout->extent_bytes();
    std::int64_t slice_bytes = 0;
    std::int64_t block_bytes = 0;
    if (__builtin_mul_overflow(count, element, &slice_bytes) ||
        __builtin_mul_overflow(slice_bytes, common_.partitions, &block_bytes)) {
      throw Error(ErrorClass::count, "{} partitions of {} elements of {} bytes are more bytes than 2^63 - 1",
                  common_.partitions, count, element);
    }
    // As numbers, since displacements from MPI_BOTTOM are addresses.
    const auto number = reinterpret_cast<std::uintptr_t>(buffer.address) + static_cast<std::uintptr_t>(offset);
    auto* const address = reinterpret_cast<std::byte*>(number);
    memory::Place place;
    if (block_bytes > 0) {
      if (number + static_cast<std::uintptr_t>(layout->first_byte()) == 0) {
        throw Error(ErrorClass::buffer, "argument {} is null, but the request has {} bytes of it", buffer.name,
                    block_bytes);
      }
      place = runtime_.device_memory->place_of(address + layout->first_byte(), 1);
      check_place(buffer.name, place, *layout);
    }
    blocks.push_back({address, count, std::move(layout), place});
    return slice_bytes;
  }

  Runtime& runtime_;
  const Common& common_;
  CollectiveArguments arguments_;
  const char* first_name_ = nullptr;  ///< of a buffer that is not empty
  memory::Place first_place_;         ///< its
};

/// The neighbours of a process topology, in the order of the blocks (MPI-4, section 8.6).
void Call::find_neighbours() {
  int topology = MPI_UNDEFINED;
  PARTITA_MPI(Topo_test(common_.comm, &topology));
  std::vector<int>& sources = problem().sources;
  std::vector<int>& destinations = problem().destinations;
  if (topology == MPI_CART) {
    int dimensions = 0;
    PARTITA_MPI(Cartdim_get(common_.comm, &dimensions));
    for (int d = 0; d < dimensions; ++d) {
      int lower = MPI_PROC_NULL;
      int upper = MPI_PROC_NULL;
      PARTITA_MPI(Cart_shift(common_.comm, d, 1, &lower, &upper));
      sources.insert(sources.end(), {lower, upper});
    }
    destinations = sources;
    problem().cartesian = true;
  } else if (topology == MPI_GRAPH) {
    int count = 0;
    PARTITA_MPI(Graph_neighbors_count(common_.comm, problem().rank, &count));
    sources.resize(static_cast<std::size_t>(count));
    PARTITA_MPI(Graph_neighbors(common_.comm, problem().rank, count, sources.data()));
    destinations = sources;
  } else if (topology == MPI_DIST_GRAPH) {
    int in = 0;
    int out = 0;
    int weighted = 0;
    PARTITA_MPI(Dist_graph_neighbors_count(common_.comm, &in, &out, &weighted));
    sources.resize(static_cast<std::size_t>(in));
    destinations.resize(static_cast<std::size_t>(out));
    std::vector<int> in_weights(sources.size());
    std::vector<int> out_weights(destinations.size());
    PARTITA_MPI(Dist_graph_neighbors(common_.comm, in, sources.data(), in_weights.data(), out, destinations.data(),
                                     out_weights.data()));
  } else {
    throw Error(ErrorClass::topology, "argument comm has no process topology; expected is a Cartesian or graph one");
  }
  for (std::vector<int>* ranks : {&sources, &destinations}) {
    for (int& rank : *ranks) {
      if (rank == MPI_PROC_NULL) rank = -1;
    }
  }
}

template <class Body>
int init(const char* call, Kind kind, const Common& common, Body body) noexcept {
  return guarded(
      call, [&] { return common.comm == MPI_COMM_NULL ? MPI_COMM_SELF : common.comm; },
      [&] {
        Call gathered(kind, common);
        body(gathered);
        gathered.make();
      });
}

constexpr const char* sendbuf_name = "sendbuf";
constexpr const char* recvbuf_name = "recvbuf";

/// gather and gatherv: `each_received` gives the root's blocks.
template <class EachReceived>
void gather(Call& call, const Given& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, const Given& recvbuf,
            int root, const EachReceived& each_received) {
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
void scatter(Call& call, const Given& sendbuf, const Given& recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
             int root, const EachSent& each_sent) {
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
void allgather(Call& call, const Given& sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, const Given& recvbuf,
               const EachReceived& each_received) {
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
void alltoall(Call& call, const Given& sendbuf, const Given& recvbuf, const EachSent& each_sent,
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
void neighbours(Call& call, const Given& sendbuf, const Given& recvbuf, const EachSent& each_sent,
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
auto equal(Call& call, const char* type_name, int blocks, MPI_Count count, MPI_Datatype datatype) {
  auto layout = call.layout(type_name, datatype);
  return [&call, blocks, count, layout](const auto& add) {
    for (int b = 0; b < blocks; ++b) add(b, Call::product(b, call.block_extent(count, *layout)), count, layout);
  };
}

/// Each block has a size and a place of its own, both in elements.
auto varying(Call& call, const char* counts_name, const char* displacements_name, const char* type_name, int blocks,
             const MPI_Count counts[], const MPI_Aint displacements[], MPI_Datatype datatype) {
  auto layout = call.layout(type_name, datatype);
  call.check_array(counts_name, blocks, counts);
  call.check_array(displacements_name, blocks, displacements);
  return [=](const auto& add) {
    for (int b = 0; b < blocks; ++b) {
      add(b, Call::product(displacements[b], layout->extent_bytes()), counts[b], layout);
    }
  };
}

/// And of types of their own, in bytes.
auto typed(Call& call, const char* counts_name, const char* displacements_name, const char* types_name, int blocks,
           const MPI_Count counts[], const MPI_Aint displacements[], const MPI_Datatype datatypes[]) {
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
void reduce(Call& call, const Given& sendbuf, const Given& recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
            bool receives, bool may_be_in_place) {
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

void reduce_scatter(Call& call, const Given& sendbuf, const Given& recvbuf, const std::vector<MPI_Count>& counts,
                    MPI_Datatype datatype, MPI_Op op) {
  const auto layout = call.reduce_with(op, datatype);
  call.refuse_in_place(recvbuf, "");
  const MPI_Count own = counts[static_cast<std::size_t>(call.problem().rank)];
  if (sendbuf.in_place()) call.set_in_place();
  MPI_Aint offset = 0;
  for (const MPI_Count count : counts) {
    call.add_sent(sendbuf.in_place() ? recvbuf : sendbuf, offset, count, layout);
    call.problem().scattered.push_back(call.problem().sent.back());
    offset = Call::sum(offset, call.block_extent(count, *layout));
  }
  call.add_received(recvbuf, 0, own, layout);
}

}  // namespace
}  // namespace partita::capi

using namespace partita;
using namespace partita::capi;

int Partita_Pbcast_init(void* buffer, int partitions, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                        MPI_Info info, Partita_Request* request) {
  return init("Pbcast_init", Kind::bcast, {partitions, comm, info, request}, [&](Call& call) {
    const Given given{"buffer", buffer};
    call.set_root(root);
    call.refuse_in_place(given, "");
    auto layout = call.layout("datatype", datatype);
    call.is_root() ? call.add_sent(given, 0, count, layout) : call.add_received(given, 0, count, layout);
  });
}

int Partita_Pgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Info info,
                         Partita_Request* request) {
  return init("Pgather_init", Kind::gather, {partitions, comm, info, request}, [&](Call& call) {
    gather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root,
           [&](const auto& add) { equal(call, "recvtype", call.size(), recvcount, recvtype)(add); });
  });
}

int Partita_Pgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                          void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                          int root, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pgatherv_init", Kind::gatherv, {partitions, comm, info, request}, [&](Call& call) {
    gather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf}, root, [&](const auto& add) {
      varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype)(add);
    });
  });
}

int Partita_Pscatter_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                          void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
                          MPI_Info info, Partita_Request* request) {
  return init("Pscatter_init", Kind::scatter, {partitions, comm, info, request}, [&](Call& call) {
    scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root,
            [&](const auto& add) { equal(call, "sendtype", call.size(), sendcount, sendtype)(add); });
  });
}

int Partita_Pscatterv_init(const void* sendbuf, int partitions, const MPI_Count sendcounts[], const MPI_Aint displs[],
                           MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                           MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pscatterv_init", Kind::scatterv, {partitions, comm, info, request}, [&](Call& call) {
    scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, recvcount, recvtype, root, [&](const auto& add) {
      varying(call, "sendcounts", "displs", "sendtype", call.size(), sendcounts, displs, sendtype)(add);
    });
  });
}

int Partita_Pallgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                            void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                            Partita_Request* request) {
  return init("Pallgather_init", Kind::allgather, {partitions, comm, info, request}, [&](Call& call) {
    allgather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
              equal(call, "recvtype", call.size(), recvcount, recvtype));
  });
}

int Partita_Pallgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                             MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pallgatherv_init", Kind::allgatherv, {partitions, comm, info, request}, [&](Call& call) {
    allgather(call, {sendbuf_name, sendbuf}, sendcount, sendtype, {recvbuf_name, recvbuf},
              varying(call, "recvcounts", "displs", "recvtype", call.size(), recvcounts, displs, recvtype));
  });
}

int Partita_Palltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                           void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                           Partita_Request* request) {
  return init("Palltoall_init", Kind::alltoall, {partitions, comm, info, request}, [&](Call& call) {
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
  return init("Palltoallv_init", Kind::alltoallv, {partitions, comm, info, request}, [&](Call& call) {
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
  return init("Palltoallw_init", Kind::alltoallw, {partitions, comm, info, request}, [&](Call& call) {
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
  return init("Preduce_init", Kind::reduce, {partitions, comm, info, request}, [&](Call& call) {
    call.set_root(root);
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.is_root(), call.is_root());
  });
}

int Partita_Pallreduce_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                            MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pallreduce_init", Kind::allreduce, {partitions, comm, info, request}, [&](Call& call) {
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
  });
}

int Partita_Preduce_scatter_init(const void* sendbuf, void* recvbuf, int partitions, const MPI_Count recvcounts[],
                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                 Partita_Request* request) {
  return init("Preduce_scatter_init", Kind::reduce_scatter, {partitions, comm, info, request}, [&](Call& call) {
    call.check_array("recvcounts", call.size(), recvcounts);
    reduce_scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, {recvcounts, recvcounts + call.size()},
                   datatype, op);
  });
}

int Partita_Preduce_scatter_block_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count recvcount,
                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                       Partita_Request* request) {
  return init("Preduce_scatter_block_init", Kind::reduce_scatter_block, {partitions, comm, info, request},
              [&](Call& call) {
                reduce_scatter(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
                               std::vector<MPI_Count>(static_cast<std::size_t>(call.size()), recvcount), datatype, op);
              });
}

int Partita_Pscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                       MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pscan_init", Kind::scan, {partitions, comm, info, request}, [&](Call& call) {
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, true, true);
  });
}

int Partita_Pexscan_init(const void* sendbuf, void* recvbuf, int partitions, MPI_Count count, MPI_Datatype datatype,
                         MPI_Op op, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init("Pexscan_init", Kind::exscan, {partitions, comm, info, request}, [&](Call& call) {
    // Nothing arrives at rank 0.
    reduce(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, count, datatype, op, call.problem().rank != 0, true);
  });
}

int Partita_Pneighbor_allgather_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                     void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                     MPI_Info info, Partita_Request* request) {
  return init("Pneighbor_allgather_init", Kind::neighbor_allgather, {partitions, comm, info, request}, [&](Call& call) {
    call.find_neighbours();
    neighbours(call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, equal(call, "sendtype", 1, sendcount, sendtype),
               equal(call, "recvtype", call.source_count(), recvcount, recvtype));
  });
}

int Partita_Pneighbor_allgatherv_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                      void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                      MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return init(
      "Pneighbor_allgatherv_init", Kind::neighbor_allgatherv, {partitions, comm, info, request}, [&](Call& call) {
        call.find_neighbours();
        neighbours(
            call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf}, equal(call, "sendtype", 1, sendcount, sendtype),
            varying(call, "recvcounts", "displs", "recvtype", call.source_count(), recvcounts, displs, recvtype));
      });
}

int Partita_Pneighbor_alltoall_init(const void* sendbuf, int partitions, MPI_Count sendcount, MPI_Datatype sendtype,
                                    void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                    MPI_Info info, Partita_Request* request) {
  return init("Pneighbor_alltoall_init", Kind::neighbor_alltoall, {partitions, comm, info, request}, [&](Call& call) {
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
  return init("Pneighbor_alltoallv_init", Kind::neighbor_alltoallv, {partitions, comm, info, request}, [&](Call& call) {
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
  return init("Pneighbor_alltoallw_init", Kind::neighbor_alltoallw, {partitions, comm, info, request}, [&](Call& call) {
    call.find_neighbours();
    neighbours(
        call, {sendbuf_name, sendbuf}, {recvbuf_name, recvbuf},
        typed(call, "sendcounts", "sdispls", "sendtypes", call.destination_count(), sendcounts, sdispls, sendtypes),
        typed(call, "recvcounts", "rdispls", "recvtypes", call.source_count(), recvcounts, rdispls, recvtypes));
  });
}
