#include "partitioned/recv.hpp"

#include <cstring>
#include <utility>

#include "partitioned/listed.hpp"
#include "partitioned/partition_range.hpp"

namespace partita {

RecvRequest::RecvRequest(const RequestServices& services, RequestArguments arguments)
    : Request(services, std::move(arguments), in_, {.awaitable = this}),
      in_(services, *this, message_.half_terms()),
      traced_(services.trace.enabled() ? static_cast<std::size_t>(message_.partitions()) : 0) {}

void RecvRequest::start() {
  check_startable();
  // Its kernels hear of the epoch before the sender does: none sees flags of an epoch that it does not know.
  if (device_.exists()) device_.side().start(next(in_.epoch()));
  try {
    in_.start();
  } catch (...) {
    if (device_.exists()) device_.side().start(in_.epoch());
    throw;
  }
}

void RecvRequest::opened_epoch() noexcept {
  begin_delivery();
  if (device_.exists()) device_.enter_epoch();
  if (link_wants_progress_) want_progress();
}

void RecvRequest::before_match() {
  link_wants_progress_ = in_.needs_progress();
  pieces_ = message_.contiguous() ? in_.plan().transport_partitions() : message_.partitions();
  claimed_ = PartitionSet(static_cast<std::int32_t>(pieces_));
  delivered_ = PartitionSet(static_cast<std::int32_t>(pieces_));
  if (packing_ == nullptr) return;
  const auto partitions = static_cast<std::int32_t>(pieces_);
  told_ = PartitionSet(partitions);
  unpacked_plan_ = link::Plan(partitions, partitions, partitions, message_.total_bytes());
}

void RecvRequest::begin_delivery() {
  next_ = 0;
  claimed_.clear();
  delivered_.clear();
  if (packing_ != nullptr) forget_told();
}

void RecvRequest::forget_told() {
  told_.clear();
  told_count_.store(0, std::memory_order_relaxed);
}

bool RecvRequest::arrived(std::int64_t partition) {
  check_partition(partition, message_.partitions());
  if (message_.null_peer()) return true;
  in_.throw_if_failed();
  if (!in_.active()) {
    in_.throw_if_given_up();  // what has not arrived by then never will
    return true;
  }
  const bool lost = in_.is_lost();
  if (in_.matched() && or_fail([&] { return deliver_partition(partition); })) {
    if (services_.trace.enabled()) trace_arrival(partition);
    return true;
  }
  if (lost) throw in_.why_lost();
  if (services_.progress.wanted()) services_.progress.poll();
  return false;
}

/// What a thread has claimed and could not move is moved by nobody else.
template <class Body>
auto RecvRequest::or_fail(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    throw Error(in_.fail_with_current("could not take what has arrived"));
  }
}

/// Whether it has arrived and lies in the user's buffer by now.
bool RecvRequest::deliver_partition(std::int64_t partition) {
  return in_.arrived(in_.plan().transports_of_recv(partition)) && deliver(pieces_of(partition));
}

link::Range RecvRequest::pieces_of(std::int64_t partition) const {
  return message_.contiguous() ? in_.plan().transports_of_recv(partition) : link::Range{partition, partition + 1};
}

/// The first of `pieces` that has not arrived, or pieces.end.
std::int64_t RecvRequest::first_missing(link::Range pieces) {
  if (message_.contiguous()) return in_.first_missing(pieces);
  return link::first_not(pieces, [this](std::int64_t piece) {
    const link::Range transports = in_.plan().transports_of_recv(piece);
    return in_.first_missing(transports) == transports.end;
  });
}

/// These pieces have arrived; returns whether they lie in the user's buffer, which they do not while another thread
/// copies.
bool RecvRequest::deliver(link::Range pieces) {
  const bool tells = tells_kernels();
  if (!tells && lands_in_place()) return true;
  if (!tells && packing_ == nullptr && are_whole(pieces) && claimed_.claim_whole(pieces)) {  // most small messages
    copy_out(pieces);
    delivered_.add_whole(pieces);
    return true;
  }
  link::Range run;
  const auto move = [this](link::Range claimed) { move_out(claimed); };
  PartitionSet::for_each_part(pieces, [&](link::Range part) {
    PartitionSet::join_all(run, part.begin, claimed_.claim(part.begin, PartitionSet::mask(part)), move);
  });
  if (run.size() > 0) move(run);
  return delivered_.contains_all(pieces);
}

/// The calling thread has claimed these.
void RecvRequest::move_out(link::Range pieces) {
  if (packing_ != nullptr) return packing_->begin(pieces, in_.packed(), in_.plan().total_bytes());
  if (!lands_in_place()) copy_out(pieces);
  if (tells_kernels()) device_.side().raise(pieces, in_.epoch());
  moved(pieces);
}

/// A device request may be made or freed while this runs, so it is not looked at here: its own step tells kernels.
void RecvRequest::moved(link::Range pieces) {
  PartitionSet::for_each_part(pieces,
                              [&](link::Range part) { delivered_.claim(part.begin, PartitionSet::mask(part)); });
}

/// Tells kernels of what the GPU has unpacked. Several threads at once: who finds all counted finds all told.
void RecvRequest::tell_unpacked() {
  link::Range run;
  const auto tell = [this](link::Range unpacked) {
    device_.side().raise(unpacked, in_.epoch());
    told_count_.fetch_add(unpacked.size(), std::memory_order_release);
  };
  for (std::int64_t piece = 0; piece < pieces_; ++piece) {
    if (told_.contains(piece) || !delivered_.contains_all({piece, piece + 1})) continue;
    PartitionSet::join_all(run, piece, told_.claim(piece, PartitionSet::mask({piece, piece + 1})), tell);
  }
  if (run.size() > 0) tell(run);
}

bool RecvRequest::has_told_all() {
  if (packing_ == nullptr) return true;
  tell_unpacked();
  return told_count_.load(std::memory_order_acquire) == pieces_;
}

void RecvRequest::copy_out(link::Range pieces) {
  const std::byte* packed = in_.landing();
  if (message_.contiguous()) {
    const link::Range bytes = link::bytes_of(in_.plan(), pieces);
    if (bytes.size() == 0) return;
    std::memcpy(message_.data() + bytes.begin, packed + bytes.begin, static_cast<std::size_t>(bytes.size()));
  } else if (in_.plan().total_bytes() < message_.total_bytes()) {  // an ordinary message, in one piece
    message_.unpack_bytes(in_.plan().total_bytes(), packed);
  } else {
    message_.unpack(pieces, packed);
  }
}

bool RecvRequest::done() {
  enter_gpu();
  if (message_.null_peer()) return true;
  in_.throw_if_failed();
  if (!in_.matched()) return false;
  if (device_.exists()) device_.check();
  if (message_.is_device_driven()) return true;  // looked at only for what its kernels found wrong
  const bool lost = in_.is_lost();
  const bool all = all_arrived();
  if (lost && !all) throw in_.why_lost();
  return all;
}

/// Delivers in step with a sender that still copies what comes next.
bool RecvRequest::all_arrived() {
  const bool all = or_fail([this] {
    const link::Range arrived{next_, first_missing({next_, pieces_})};
    if (arrived.size() > 0 && deliver(arrived)) next_ = arrived.end;
    return next_ == pieces_ && is_packed();
  });
  if (!all) return false;
  if (tells_kernels() && !(has_told_all() && device_.side().told_kernels())) return false;
  for (std::int64_t p = 0; services_.trace.enabled() && p < message_.partitions(); ++p) trace_arrival(p);
  return true;
}

void RecvRequest::seek_peers() {
  services_.matcher.add(in_);
}

/// For kernels that wait for what only the host can deliver.
bool RecvRequest::device_step() {
  enter_gpu();
  if (!tells_kernels()) return false;
  if (packing_ != nullptr) tell_unpacked();
  bool delivered = false;
  for (std::int64_t piece = 0; piece < pieces_; ++piece) {
    const link::Range one{piece, piece + 1};
    if (claimed_.contains(piece) || first_missing(one) == piece) continue;
    delivered |= deliver(one);
  }
  return delivered;
}

std::optional<link::StreamRoute> RecvRequest::stream_route() {
  if (in_.terms().driver != link::Driver::stream) return {};
  const auto route = in_.device_route();
  return route ? route->stream : std::nullopt;
}

link::DeviceRoute RecvRequest::device_route() {
  if (packing_ != nullptr) {  // the link shows what is packed, and kernels wait for what is unpacked
    forget_told();
    return std::optional<link::DeviceRecvRoute>();
  }
  const auto route = in_.device_route();
  if (!route && message_.is_device_driven()) {
    throw Error(ErrorClass::other, "the request is device-driven (info key partita_driver), but {}", why_no_kernels());
  }
  if (!route) {  // what has arrived in this epoch already is delivered once more: kernels must hear of it
    begin_delivery();
  }
  return route;
}

std::string RecvRequest::why_no_kernels() const {
  if (in_.has_device_route()) return {};
  return fmt::format("link {} ({}) shows arrivals to the host only", in_.link_name(), in_.link_reason());
}

const link::Plan& RecvRequest::plan_for_kernels() const {
  return packing_ != nullptr ? unpacked_plan_ : in_.plan();
}

bool RecvRequest::epoch_is_over() {
  return in_.all_arrived() && (packing_ == nullptr || delivered_.contains_all({0, pieces_}));
}

/// Without the link, or with its flags in memory.
bool RecvRequest::kernels_can_wait() const {
  if (message_.is_device_driven()) return true;
  if (!tells_kernels()) return !in_.all_arrived();
  return !delivered_.contains_all({0, pieces_});
}

/// Once per partition and epoch, whoever sees it first.
void RecvRequest::trace_arrival(std::int64_t partition) {
  auto& traced = traced_[static_cast<std::size_t>(partition)];
  if (traced.exchange(in_.epoch(), std::memory_order_relaxed) != in_.epoch()) record(Trace::Event::arrived, partition);
}

bool RecvRequest::prepared() {
  if (message_.null_peer()) return true;
  in_.throw_if_failed();
  return in_.matched();
}

std::uint64_t RecvRequest::partitions_so_far() const {
  std::uint64_t arrived = 0;
  for (std::int32_t t = 0; t < in_.plan().transport_partitions(); ++t) arrived += in_.arrived({t, t + 1}) ? 1 : 0;
  return arrived;
}

std::string RecvRequest::describe_epoch() const {
  std::vector<std::int64_t> missing;
  for (std::int32_t t = 0; t < in_.plan().transport_partitions(); ++t) {
    if (!in_.arrived({t, t + 1})) missing.push_back(t);
  }
  const char* const then = !missing.empty()  ? ""
                           : !is_packed()    ? "; the GPU unpacks them"
                           : tells_kernels() ? "; its kernels are being told"
                                             : "";
  return fmt::format("{} of {} transport partitions not arrived{}{}", missing.size(), in_.plan().transport_partitions(),
                     listed(missing), then);
}

}  // namespace partita
