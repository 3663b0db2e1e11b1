#include "capi/collective_call.hpp"

#include <algorithm>
#include <utility>

#include "capi/arguments.hpp"
#include "capi/info.hpp"
#include "capi/operators.hpp"
#include "capi/report.hpp"
#include "capi/small_floats.hpp"
#include "collective/collective.hpp"
#include "collective/kernel_collective.hpp"
#include "core/mpi_check.hpp"

namespace partita::capi {
namespace {

using collective::Block;
using collective::CollectiveArguments;
using collective::Form;
using collective::Kind;

constexpr InfoKey<CollectiveArguments> collective_info_keys[] = {
    {"partita_link",
     [](const std::string& value, CollectiveArguments& arguments) { arguments.link = checked_link(value); }},
    {"partita_algorithm",
     [](const std::string& value, CollectiveArguments& arguments) { arguments.algorithm = value; }},
    {"partita_driver",
     [](const std::string& value, CollectiveArguments& arguments) {
       arguments.driver = value == "device" ? link::Driver::device : link::Driver::host;
       if (value == "host" || value == "device") return;
       throw Error(ErrorClass::info_value, "info key partita_driver is \"{}\"; expected is host or device", value);
     }},
};

std::string described(const memory::Place& place) {
  if (memory::is_host(place.kind)) return "host memory";
  return fmt::format("{} of GPU {}", place.kind == memory::Kind::managed ? "managed memory" : "memory", place.device);
}

}  // namespace

CollectiveCall::CollectiveCall(Kind kind, const CommonArguments& common) : runtime_(runtime()), common_(common) {
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
  arguments_.is_partitioned = common.is_partitioned;
  arguments_.world_ranks = arguments_.communicator->members(runtime_.world);
  for (std::size_t rank = 0; rank < arguments_.world_ranks.size(); ++rank) {
    if (arguments_.world_ranks[rank] != MPI_UNDEFINED) continue;
    throw Error(ErrorClass::comm, "rank {} of argument comm is a process that Partita was not initialised with", rank);
  }
  problem().kind = kind;
  PARTITA_MPI(Comm_rank(common.comm, &problem().rank));
  problem().size = static_cast<int>(arguments_.world_ranks.size());
  arguments_.link = runtime_.settings.link;
  arguments_.tuning = &runtime_.tuning;
  apply_info(common.info, collective_info_keys, arguments_);
}

void CollectiveCall::set_root(int root) {
  if (root < 0 || root >= size()) {
    throw Error(ErrorClass::root, "argument root is {}; expected is 0 to {}", root, size() - 1);
  }
  problem().root = root;
}

void CollectiveCall::find_neighbours() {
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

void CollectiveCall::refuse_in_place(const GivenBuffer& buffer, const char* why) const {
  if (buffer.in_place()) {
    throw Error(ErrorClass::buffer, "argument {} is MPI_IN_PLACE; expected is a buffer{}", buffer.name, why);
  }
}

std::shared_ptr<const Layout> CollectiveCall::layout(const char* name, MPI_Datatype datatype) {
  check_datatype(runtime_, name, datatype);
  return std::make_shared<const Layout>(Layout::of(datatype));
}

std::shared_ptr<const Layout> CollectiveCall::reduce_with(MPI_Op op, MPI_Datatype datatype) {
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

void CollectiveCall::add_sent(const GivenBuffer& buffer, MPI_Aint offset, MPI_Count count,
                              std::shared_ptr<const Layout> layout) {
  problem().sent.push_back(add(arguments_.sent, buffer, offset, count, std::move(layout)));
}

void CollectiveCall::add_received(const GivenBuffer& buffer, MPI_Aint offset, MPI_Count count,
                                  std::shared_ptr<const Layout> layout) {
  problem().received.push_back(add(arguments_.received, buffer, offset, count, std::move(layout)));
}

void CollectiveCall::check_array(const char* name, int length, const void* array) const {
  if (length > 0 && array == nullptr) {
    throw Error(ErrorClass::arg, "argument {} is null; expected are {} entries", name, length);
  }
}

MPI_Aint CollectiveCall::block_extent(MPI_Count count, const Layout& layout) const {
  return product(product(common_.partitions, count), layout.extent_bytes());
}

std::int64_t CollectiveCall::product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    throw Error(ErrorClass::count, "a buffer spans more bytes than 2^63 - 1: {} times {}", a, b);
  }
  return result;
}

std::int64_t CollectiveCall::sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    throw Error(ErrorClass::count, "a buffer spans more bytes than 2^63 - 1: {} and {}", a, b);
  }
  return result;
}

void CollectiveCall::make() {
  std::unique_ptr<Operation> made;
  if (arguments_.driver == link::Driver::device) {
    made = std::make_unique<collective::KernelCollective>(runtime_.services, std::move(arguments_));
  } else {
    made = std::make_unique<collective::Collective>(runtime_.services, std::move(arguments_));
  }
  const Partita_Request handle = handle_of(*made);
  runtime_.operations.add(std::move(made));
  *common_.request = handle;
}

/// All buffers lie in host memory, or all in that of one GPU.
void CollectiveCall::check_place(const char* name, const memory::Place& place, const Layout& layout) {
  const bool is_gpu = !memory::is_host(place.kind);
  if (is_gpu && arguments_.form == Form::in_gaps && !layout.contiguous()) {
    throw Error(ErrorClass::type,
                "argument {} is GPU memory and its datatype has gaps, with which GPUs do not compute; expected is a "
                "datatype without gaps, or host memory",
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

/// Returns the bytes of a slice.
std::int64_t CollectiveCall::add(std::vector<Block>& blocks, const GivenBuffer& buffer, MPI_Aint offset,
                                 MPI_Count count, std::shared_ptr<const Layout> layout) {
  if (count < 0)
    throw Error(ErrorClass::count, "a count of argument {} is {}; expected is 0 or more", buffer.name, count);
  const std::int64_t element = arguments_.form == Form::packed ? layout->size_bytes() : layout->extent_bytes();
  std::int64_t slice_bytes = 0;
  std::int64_t block_bytes = 0;
  if (__builtin_mul_overflow(count, element, &slice_bytes) ||
      __builtin_mul_overflow(slice_bytes, common_.partitions, &block_bytes)) {
    const std::string all = common_.is_partitioned ? fmt::format("{} partitions of ", common_.partitions) : "";
    throw Error(ErrorClass::count, "argument {}: {}{} elements of {} bytes are more bytes than 2^63 - 1", buffer.name,
                all, count, element);
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

}  // namespace partita::capi
