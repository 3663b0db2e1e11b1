#include "collective/kernel_collective.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "collective/gpu_reduction.hpp"
#include "collective/turn.hpp"
#include "core/current_error.hpp"
#include "partita/device/impl/elements.hpp"

namespace partita::collective {

namespace {

/// Strips of packets where those only stand in for buffers that cannot be mapped: slots do not grow with the data.
constexpr partita_u32 strips_of_stand_in = 8;

partita_u32 collective_of(const Problem& problem) {
  switch (problem.kind) {
    case Kind::allreduce:
      return PARTITA_COLLECTIVE_ALLREDUCE;
    case Kind::allgather:
      return PARTITA_COLLECTIVE_ALLGATHER;
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      return PARTITA_COLLECTIVE_REDUCE_SCATTER;
    case Kind::alltoall:
      return PARTITA_COLLECTIVE_ALLTOALL;
    case Kind::bcast:
      return PARTITA_COLLECTIVE_BCAST;
    default:
      throw Error(ErrorClass::info_value,
                  "info key partita_driver is \"device\"; expected of {} is host: kernels open the epochs of bcast, "
                  "allgather, alltoall, allreduce, reduce_scatter and reduce_scatter_block only",
                  name_of(problem.kind));
  }
}

void check_served(const CollectiveArguments& arguments) {
  collective_of(arguments.problem);  // throws
  if (arguments.problem.size > device::most_collective_ranks) {
    throw Error(ErrorClass::comm,
                "argument comm has {} ranks; expected of a collective whose epochs kernels open (info key "
                "partita_driver) are up to {}",
                arguments.problem.size, device::most_collective_ranks);
  }
  if (!arguments.is_partitioned && arguments.algorithm == kernel_push_name()) {
    throw Error(
        ErrorClass::info_value,
        "info key partita_algorithm is \"{}\", in which kernels mark partitions; expected of a collective that is "
        "not partitioned is auto or another one",
        kernel_push_name());
  }
}

/// The blocks of both buffers have one size, which is given back, of all partitions.
std::int64_t size_of_blocks(const CollectiveArguments& arguments) {
  std::set<std::int64_t> sizes(arguments.problem.sent.begin(), arguments.problem.sent.end());
  sizes.insert(arguments.problem.received.begin(), arguments.problem.received.end());
  if (sizes.size() > 1) {
    throw Error(ErrorClass::truncate,
                "the blocks of {} have {} bytes a partition; expected of a collective whose epochs kernels open (info "
                "key partita_driver) are equal ones",
                name_of(arguments.problem.kind), fmt::join(sizes, ", "));
  }
  return *sizes.begin() * arguments.partitions;
}

std::byte* begin_of(const std::vector<Block>& blocks) {
  return blocks.front().address + blocks.front().layout->first_byte();
}

/// What a block's address tells, also where it has no bytes and nobody has asked before.
memory::Place told_place(const RequestServices& services, const Block& block) {
  return memory::is_host(block.place.kind) ? services.device_memory.place_of(block.address, 1) : block.place;
}

/// Where the program's buffers lie. One of no bytes may lie anywhere, or be null, where another one tells the GPU.
memory::Place place_of_buffers(const RequestServices& services, const CollectiveArguments& arguments) {
  std::optional<memory::Place> found;
  for (const std::vector<Block>* blocks : {&arguments.sent, &arguments.received}) {
    for (const Block& block : *blocks) {
      if (!block.layout->contiguous()) {
        throw Error(ErrorClass::type,
                    "a datatype has gaps; expected of a collective whose epochs kernels open (info key partita_driver) "
                    "is one without, since they pack nothing");
      }
      const memory::Place place = told_place(services, block);
      if (place.kind == memory::Kind::device) {
        if (!found) found = place;
      } else if (block.count > 0 && block.layout->size_bytes() > 0) {
        throw Error(ErrorClass::buffer,
                    "a buffer is {} memory; expected of a collective whose epochs kernels open (info key "
                    "partita_driver) is memory of one GPU (cudaMalloc or the like)",
                    name_of(place.kind));
      }
    }
  }
  if (found) return *found;
  throw Error(ErrorClass::buffer,
              "all buffers are empty, and no address of them lies in the memory of a GPU; expected of a collective "
              "whose epochs kernels open (info key partita_driver) is one that tells whose kernels do");
}

partita_u32 reduction_of(const CollectiveArguments& arguments) {
  if (!arguments.reduction.exists()) return 0;
  const GpuReduction reduction = gpu_reduction(arguments.reduction);
  return device::reduction_code(reduction.element, reduction.by);
}

bool marks_push(const CollectiveArguments& arguments) {
  return arguments.is_partitioned && arguments.algorithm == kernel_push_name();
}

/// What the other ranks must have made, too.
std::string purpose_in_kernels(const CollectiveArguments& arguments, std::int64_t block_bytes, partita_u32 reduction,
                               const KernelAlgorithm& algorithm) {
  std::string what = fmt::format("{} {} in kernels, of {} bytes a block, algorithm {}",
                                 arguments.is_partitioned ? "partitioned" : "persistent",
                                 name_of(arguments.problem.kind), block_bytes, algorithm.name);
  if (algorithm.code == PARTITA_ALGORITHM_PUSH) what += fmt::format(", in {} partitions", arguments.partitions);
  if (arguments.problem.kind == Kind::bcast) return fmt::format("{}, root {}", what, arguments.problem.root);
  if (!arguments.reduction.exists()) return what;
  return fmt::format("{}, reduction {}.{}", what, reduction >> 8, reduction & 0xffU);
}

}  // namespace

KernelCollective::KernelCollective(const RequestServices& services, CollectiveArguments arguments)
    : Operation({.awaitable = marks_push(arguments) ? this : nullptr,
                 .kernel_usable = arguments.is_partitioned ? &device_ : nullptr,
                 .stream_runnable = marks_push(arguments) ? nullptr : this},
                arguments.communicator),
      services_(services),
      arguments_((check_served(arguments), std::move(arguments))),
      place_(place_of_buffers(services, arguments_)),
      block_bytes_(size_of_blocks(arguments_)),
      collective_(collective_of(arguments_.problem)),
      reduction_(reduction_of(arguments_)),
      wished_(choose_kernel_algorithm(arguments_.problem, block_bytes_, arguments_.algorithm, arguments_.tuning)),
      cut_(cut()),
      area_bytes_(bytes_of_area()),
      purpose_(purpose_in_kernels(arguments_, block_bytes_, reduction_, wished_)),
      device_(services, *this),
      plan_(pushes() ? link::Plan(arguments_.partitions, arguments_.partitions, arguments_.partitions, block_bytes_)
                     : link::Plan(1, 1, 1, 0)),
      epoch_(services.settings.first_epoch),
      newest_flag_(services.settings.first_epoch) {
  if (area_bytes_ > 0) prepare_areas();
  if (wished_.in_buffers) name_buffers();
  if (pushes()) pushed_ = std::make_unique<PushedEpochs>(services, device_, place_.device, pushed_shape());
  for (int r = 0; r < arguments_.problem.size; ++r) {
    if (r != arguments_.problem.rank) neighbours_.emplace_back(*this, r);
  }
}

/// How packets are cut.
device::Cut KernelCollective::cut() const {
  if (pushes()) return {};
  return device::cut_of(cut_bytes(), wished_.in_buffers ? strips_of_stand_in : device::most_strips);
}

/// One rank has so much in the memory of another one. Inboxes have flags even where there are no bytes.
std::int64_t KernelCollective::bytes_of_area() const {
  if (pushes()) {
    const partita_u64 bytes = device::bytes_by_inbox(collective_, static_cast<partita_u64>(block_bytes_));
    return static_cast<std::int64_t>(device::inbox_bytes(arguments_.partitions, bytes));
  }
  return block_bytes_ > 0 ? static_cast<std::int64_t>(device::area_bytes(cut_.strips)) : 0;
}

/// What the packets of an epoch are cut from.
partita_u64 KernelCollective::cut_bytes() const {
  return device::cut_bytes(wished_.code, static_cast<partita_u64>(block_bytes_),
                           static_cast<partita_u32>(arguments_.problem.size));
}

/// The words in which other ranks say what they have unpacked, or which epoch they have opened, start where epochs do.
/// All others start as 0.
void KernelCollective::prepare_areas() {
  const auto ranks = static_cast<std::size_t>(arguments_.problem.size);
  const std::size_t areas = pushes() ? ranks - 1 : ranks;
  if (areas == 0) return;
  areas_.emplace(Home{services_.host_blocks, services_.device_memory, place_},
                 static_cast<std::size_t>(area_bytes_) * areas);
  if (pushes()) {
    if (!pushes_straight() || !is_root()) return;
    for (int r = 0; r < arguments_.problem.size; ++r) {
      if (r != arguments_.problem.rank) write_to_area(r, {services_.settings.first_epoch});
    }
    return;
  }
  std::vector<partita_u32> lines(std::size_t{cut_.strips} * device::words_of_line);
  for (std::size_t strip = 0; strip < cut_.strips; ++strip) {
    lines[strip * device::words_of_line] = services_.settings.first_epoch;
  }
  for (int r = 0; r < arguments_.problem.size; ++r) write_to_area(r, lines);
}

/// From where the area for that rank begins.
void KernelCollective::write_to_area(int rank, const std::vector<partita_u32>& words) {
  services_.device_memory.copy(area_of(rank), words.data(), words.size() * sizeof(partita_u32));
}

/// To the other ranks, before their halves are made.
void KernelCollective::name_buffers() {
  const auto block = static_cast<std::size_t>(block_bytes_);
  buffers_ = std::make_unique<PeerBuffers>(services_, place_.device,
                                           BufferPair{begin_of(blocks_sent()), begin_of(blocks_received())},
                                           BufferBytes{block * blocks_sent().size(), block * blocks_received().size()},
                                           arguments_.world_ranks, arguments_.problem.rank);
}

/// For that rank; null where nothing is to be moved.
std::byte* KernelCollective::area_of(int rank) const {
  if (!areas_) return nullptr;
  const int index = pushes() ? device::index_of_inbox(arguments_.problem.rank, rank) : rank;
  return areas_->data() + index * area_bytes_;
}

/// A send's bytes never move: its terms name the same area.
HalfTerms KernelCollective::half_terms(Side side, int rank) {
  HalfTerms terms;
  terms.side = side;
  terms.peer = arguments_.world_ranks[static_cast<std::size_t>(rank)];
  terms.space = Space::collective;
  terms.communicator = arguments_.communicator;
  terms.places = &places_;
  terms.shape = {{1, area_bytes_}, 1, 1};
  terms.link = arguments_.link;
  terms.data = area_of(rank);
  terms.place = place_;
  terms.driver = link::Driver::device;
  terms.in_place = true;  // no packets of the link's own
  terms.of_library = true;
  terms.purpose = purpose_;
  if (buffers_ && side == Side::send) terms.enclosed = buffers_->shown_to(rank);
  return terms;
}

void KernelCollective::seek_peers() {
  seek_in_turn(*arguments_.communicator, places_, [this](bool& is_known) {
    for (Neighbour& neighbour : neighbours_) {
      services_.matcher.add(neighbour.out);
      is_known = true;
      services_.matcher.add(neighbour.in);
    }
  });
}

bool KernelCollective::matched() const {
  throw_if_failed();
  return unmatched() == nullptr;
}

const KernelCollective::Neighbour* KernelCollective::unmatched() const {
  const auto found = std::ranges::find_if(
      neighbours_, [](const Neighbour& each) { return !each.out.matched() || !each.in.matched(); });
  return found == neighbours_.end() ? nullptr : &*found;
}

void KernelCollective::fill_status(MPI_Status* status) const {
  set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

/// As kernels reach the rank behind `neighbour`.
Partita_Peer KernelCollective::peer_through(Neighbour& neighbour) {
  if (neighbour.out.is_empty()) return {};
  const auto route = neighbour.out.device_route();
  const auto unreached = [&](const Half& half, const char* which) {
    return Error(ErrorClass::other,
                 "kernels open the epochs of the request (info key partita_driver), but they cannot reach the memory "
                 "of {} {} over link {} ({})",
                 which, neighbour.rank, half.link_name(), half.link_reason());
  };
  if (!route) throw unreached(neighbour.out, "rank");
  const auto back = neighbour.in.device_route();
  if (!back) throw unreached(neighbour.in, "this rank from rank");
  Partita_Peer peer{nullptr, reinterpret_cast<partita_u32*>(route->remote), nullptr};
  if (!pushes_straight()) return peer;
  // Where a receiver's newest epoch stands in the root's host memory.
  peer.host_words = is_root() ? reinterpret_cast<partita_u32*>(const_cast<std::uint64_t*>(route->host_promise))
                              : back->peer.host_words;
  return peer;
}

PrequestTerms KernelCollective::prequest_terms() {
  try {
    return terms_for_kernels();
  } catch (const std::exception&) {
    const Error error = current_error();
    fail_as("has no kernels that take part", error, Mail::Caller::may_call_the_mpi);
    throw Error(error);
  }
}

PrequestTerms KernelCollective::terms_for_kernels() {
  if (services_.settings.gpu_copy == GpuCopy::engine) {
    throw Error(ErrorClass::other,
                "PARTITA_GPU_COPY is engine, but kernels move the data of a collective whose epochs they open (info "
                "key partita_driver)");
  }
  if (arguments_.algorithm != "auto" && &algorithm() != &wished_) {
    throw Error(ErrorClass::other, "info key partita_algorithm is \"{}\", but {}", wished_.name, why_not_in_buffers());
  }
  const Problem& problem = arguments_.problem;
  CollectiveTerms terms;
  terms.peers.resize(static_cast<std::size_t>(problem.size));
  for (Neighbour& neighbour : neighbours_) {
    terms.peers[static_cast<std::size_t>(neighbour.rank)] = peer_through(neighbour);
  }
  terms.areas = areas_ ? areas_->data() : nullptr;
  terms.sent = begin_of(blocks_sent());
  terms.received = begin_of(blocks_received());
  terms.block_bytes = block_bytes_;
  terms.collective = collective_;
  terms.reduction = reduction_;
  terms.rank = problem.rank;
  terms.ranks = problem.size;
  terms.root = problem.root;
  terms.cut = cut_;
  terms.newest_flag = newest_flag_;
  terms.algorithm = algorithm().code;
  if (algorithm().in_buffers) pushes() ? map_buffers_to_push_to(terms) : map_buffers(terms);
  return {.sides = sides(),
          .driver = driver(),
          .data = nullptr,
          .place = place_,
          .in_place = false,
          .plan = plan_,
          .route = {},
          .timeout_s = services_.settings.timeout_s,
          .collective = std::move(terms)};
}

/// Why kernels cannot move the data in the ranks' buffers, all of which have been named; empty where they can. All
/// ranks have heard the same of each.
std::string KernelCollective::why_not_in_buffers() const {
  if (const std::string& why = buffers_->why_not(); !why.empty()) return fmt::format("of this rank {}", why);
  for (const Neighbour& neighbour : neighbours_) {
    const ShownBuffers shown = ShownBuffers::unpack(neighbour.in.enclosed());
    if (!shown.shown()) return fmt::format("of rank {} {}", neighbour.rank, shown.why_not);
  }
  return {};
}

/// Until all ranks have named their buffers, or said that they cannot, the one that they shall be moved by.
const KernelAlgorithm& KernelCollective::algorithm() const {
  if (!wished_.in_buffers || unmatched() != nullptr || why_not_in_buffers().empty()) return wished_;
  return kernel_packets();
}

void KernelCollective::map_buffers(CollectiveTerms& terms) {
  const auto ranks = static_cast<std::size_t>(arguments_.problem.size);
  terms.peers.resize(2 * ranks);
  // Where there are several blocks, their length divides where they begin.
  const Kind kind = arguments_.problem.kind;
  partita_u64 joined = kind == Kind::allreduce || kind == Kind::bcast ? 0 : static_cast<partita_u64>(block_bytes_);
  const auto take = [&](int rank, const BufferPair& pair) {
    terms.peers[static_cast<std::size_t>(rank)].buffer = reinterpret_cast<unsigned char*>(pair.received);
    terms.peers[ranks + static_cast<std::size_t>(rank)].buffer = reinterpret_cast<unsigned char*>(pair.sent);
    joined |= reinterpret_cast<partita_u64>(pair.sent) | reinterpret_cast<partita_u64>(pair.received);
  };
  buffers_->forget();
  take(arguments_.problem.rank, buffers_->own());
  for (const Neighbour& each : neighbours_) take(each.rank, buffers_->map(each.rank, each.in.enclosed()));
  terms.unit_bytes = device::common_unit_bytes(joined);
}

void KernelCollective::map_buffers_to_push_to(CollectiveTerms& terms) {
  if (!is_root()) return;
  buffers_->forget();
  for (const Neighbour& each : neighbours_) {
    std::byte* const to = buffers_->map(each.rank, each.in.enclosed()).received;
    terms.peers[static_cast<std::size_t>(each.rank)].buffer = reinterpret_cast<unsigned char*>(to);
  }
}

// ---- Ends ----------------------------------------------------------------------------------------------------------

void KernelCollective::throw_if_failed() const {
  if (failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(failure_mutex_);
    told_.store(true, std::memory_order_relaxed);
    if (failure_) throw Error(*failure_);
  }
  for_each_half([&](const Half& half) {
    if (half.failed()) told_.store(true, std::memory_order_relaxed);
    half.throw_if_failed();
  });
}

bool KernelCollective::failed() const {
  bool any = failed_.load(std::memory_order_acquire);
  for_each_half([&](const Half& half) { any |= half.failed(); });
  return any;
}

void KernelCollective::throw_if_over() const {
  throw_if_failed();
  if (!given_up()) return;
  throw Error(ErrorClass::request,
              "an earlier epoch of the request ended with an error, so that the epochs of its ranks no longer agree; "
              "free it on all ranks and make it anew. {}",
              explain());
}

void KernelCollective::fail(const Error& error) {
  fail_as("gave its request up", error, Mail::Caller::may_call_the_mpi);
}

void KernelCollective::fail_alone(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
}

/// The peers hear that this rank `what`.
void KernelCollective::fail_as(const char* what, const Error& error, Mail::Caller caller) {
  fail_alone(error);
  for_each_half([&](Half& half) { half.fail_on_both_sides(what, error, caller); });
}

/// Only its GPU knows the epochs of kernels.
void KernelCollective::abandon(const std::optional<Error>& cause) {
  const auto exclusive = services_.progress.exclusive();
  given_up_.store(true, std::memory_order_release);
  for_each_half([](Half& half) {
    const std::lock_guard lock(half.setup_mutex());
    half.give_up();
  });
  if (!why_given_up_) why_given_up_ = cause;
  const bool has_kernels = device_.was_made();
  if (has_kernels) device_.end_kernels();
  close();  // behind that: the watch, which it waits for, may be asking the GPU beside kernels that wait
  if (!has_kernels) return hear_last_epoch({});
  device_.answer_without_thread();
}

/// Where the GPU does not tell an older epoch does as well.
void KernelCollective::hear_last_epoch(const std::optional<DeviceSide::LastEpoch>& last) {
  const Epoch first_lost = last ? note(*last) : next(epoch_);
  if (!why_given_up_) return;
  for_each_half([&](Half& half) { half.say(first_lost, "gave its request up", *why_given_up_); });
}

/// Returns the first epoch that others lose if this rank goes on no more. The halves know the last one that is complete
/// here, behind which a free says the same.
Epoch KernelCollective::note(const DeviceSide::LastEpoch& last) {
  newest_flag_ = last.flag;
  if (!last.is_over) return last.epoch;
  epoch_ = last.epoch;
  for_each_half([&](Half& half) { half.set_epoch(epoch_); });
  return next(epoch_);
}

void KernelCollective::take_over_epochs() {
  const DeviceSide::LastEpoch last = device_.side().last_epoch();
  const Epoch first_lost = note(last);
  if (last.is_over || given_up_.exchange(true, std::memory_order_acq_rel)) return;
  const Error error(ErrorClass::request, "it was freed before its kernels had completed epoch {}. {}", first_lost,
                    name());
  for_each_half([&](Half& half) { half.say(first_lost, "gave its request up", error); });
}

void KernelCollective::withdraw() {
  for_each_half([](Half& half) { half.withdraw(); });
  drain_own_stream();
  device_.drop();
  if (buffers_) buffers_->forget();
}

std::vector<Half*> KernelCollective::halves() {
  std::vector<Half*> halves;
  for_each_half([&](Half& half) { halves.push_back(&half); });
  return halves;
}

/// Whether that side has ended so that the epoch that kernels are in cannot complete, or that the host has opened.
bool KernelCollective::is_lost(const Half& half) const {
  if (!half.ending.heard()) return false;
  if (pushed_ && active() && pushed_->is_incomplete() && half.ending.loses(pushed_->opened())) return true;
  try {
    const DeviceSide::LastEpoch last = device_.side().last_epoch();
    return !last.is_over && half.ending.loses(last.epoch);
  } catch (const Error&) {
    return false;  // the GPU works no longer, as the next look finds
  }
}

std::optional<Error> KernelCollective::why_peers_are_lost(KernelFindings& findings) {
  for (const Neighbour& neighbour : neighbours_) {
    for (const Half* half : {static_cast<const Half*>(&neighbour.out), static_cast<const Half*>(&neighbour.in)}) {
      if (is_lost(*half)) return half->why_lost(name());
    }
    if (auto why = findings.why_ended(neighbour.out.peer(), name())) return why;
  }
  return {};
}

}  // namespace partita::collective
