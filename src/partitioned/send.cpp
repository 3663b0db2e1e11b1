#include "partitioned/send.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "partitioned/listed.hpp"
#include "partitioned/partition_range.hpp"

namespace partita {
namespace {

/// The first epoch there, and the second of all.
constexpr Epoch behind_wrap = next(~Epoch{0});

/// Between GPUs: a copy that takes at least some ten microseconds, in which the next one starts. A quarter of a long
/// message, so that it leaves in a few transfers.
constexpr std::int64_t least_transfer_bytes = std::int64_t{8} << 20;
constexpr std::int64_t transfers_of_a_message = 4;

Error marked_already(std::int64_t partition) {
  return Error(ErrorClass::arg, "partition {} was marked in this epoch already; expected is once per epoch", partition);
}

}  // namespace

SendRequest::SendRequest(const RequestServices& services, RequestArguments arguments)
    : Request(services, std::move(arguments), out_, {.markable = this}), out_(services, *this, message_.half_terms()) {
  if (packing_ != nullptr) given_to_packing_ = PartitionSet(static_cast<std::int32_t>(message_.partitions()));
}

void SendRequest::start() {
  check_startable();
  given_to_packing_.clear();
  out_.start();
}

void SendRequest::opened_epoch() noexcept {
  if (out_.epoch() == behind_wrap) forget_hand_overs();
  if (link_wants_progress_) want_progress();
  if (!device_.exists()) return short_way_.store(short_partitions_, std::memory_order_release);
  device_.side().start(out_.epoch());
  device_.enter_epoch();
}

/// What is noted of old epochs would be taken for new.
void SendRequest::forget_hand_overs() noexcept {
  hand_overs_.forget();
  if (device_.exists()) device_.side().forget_hand_overs();
}

void SendRequest::close() {
  short_way_.store(0, std::memory_order_relaxed);
  Request::close();
}

void SendRequest::before_match() {
  link_wants_progress_ = out_.needs_progress();
  hand_overs_.set_up(out_.plan().transport_partitions());
  if (out_.terms().packed_apart || services_.trace.enabled()) return;
  short_partitions_ = static_cast<std::uint32_t>(message_.partitions());
}

/// Whatever is unusual, a mistake too, goes the other way. Nothing follows a call, so that the most frequent way, on
/// which there is none, saves no registers.
void SendRequest::mark(std::int64_t partition) {
  const bool usual = static_cast<std::uint64_t>(partition) < short_way_.load(std::memory_order_acquire);
  if (!usual) return mark(partition, partition);
  const Gathering::Added added = out_.add(partition);
  if (out_.is_more_to_do(added)) go_on(partition, added);
}

void SendRequest::go_on(std::int64_t partition, Gathering::Added added) {
  if (!out_.go_on(partition, added)) mark(partition, partition);
}

void SendRequest::mark(std::int64_t first, std::int64_t last) {
  check_partitions(first, last, message_.partitions());
  // To nobody a mark has no effect, a second one neither, nor one behind the end of the epoch, which does not wait for
  // marks: another thread may have completed it.
  if (message_.null_peer()) return;
  check_markable();
  if (packing_ != nullptr) return mark_for_packing({first, last + 1});
  // The bytes of a partition that was marked before this call may be on their way: they are not packed again.
  const link::Range unmarked{first, out_.first_complete({first, last + 1})};
  if (out_.terms().packed_apart && unmarked.size() > 0) message_.pack(unmarked, out_.packed());
  record(Trace::Event::marked, unmarked);
  const std::int64_t end = out_.complete(unmarked);
  if (end <= last) throw marked_already(end);
}

void SendRequest::mark_for_packing(link::Range partitions) {
  const std::int64_t end = given_to_packing_.add_each(partitions, [](const PartitionSet::Added&) {});
  try {
    if (end > partitions.begin) packing_->begin({partitions.begin, end}, out_.packed(), message_.total_bytes());
  } catch (const std::exception&) {
    throw Error(out_.fail_with_current("could not pack what it sends"));  // nobody else packs these
  }
  if (end < partitions.end) throw marked_already(end);
}

void SendRequest::moved(link::Range partitions) {
  record(Trace::Event::marked, partitions);
  out_.complete(partitions);
}

bool SendRequest::is_marked(std::int64_t partition) const {
  return packing_ != nullptr ? given_to_packing_.contains(partition) : out_.is_complete(partition);
}

/// In this epoch; message_.partitions() where none is.
std::int64_t SendRequest::first_marked() const {
  const link::Range all{0, message_.partitions()};
  return packing_ != nullptr ? given_to_packing_.first_of(all) : out_.first_complete(all);
}

void SendRequest::check_markable() const {
  if (!out_.active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  if (device_.exists()) {
    throw Error(ErrorClass::request,
                "the request has a device request, so kernels mark its partitions; free that before the host marks");
  }
}

void SendRequest::seek_peers() {
  services_.matcher.add(out_);
}

bool SendRequest::done() {
  enter_gpu();
  if (message_.null_peer()) return true;
  out_.throw_if_failed();
  if (!out_.matched()) return false;
  const bool lost = out_.is_lost();
  const bool all = device_.exists() ? device_done() : all_left();
  if (lost && !all) throw out_.why_lost();
  return all;
}

bool SendRequest::epoch_is_over() {
  if (!device_.exists()) return out_.all_finished() && is_packed();
  const DeviceSide& side = device_.side();
  return side.completed(out_.epoch()) && !side.hands_over(out_.epoch()) && out_.finished();
}

bool SendRequest::has_left_buffer() noexcept {
  try {
    return !out_.matched() || out_.finished();
  } catch (const std::exception&) {
    return false;  // the link does not tell
  }
}

bool SendRequest::all_left() {
  out_.flush();
  return out_.all_finished() && is_packed();
}

bool SendRequest::device_done() {
  // Before the looks at what went wrong and at what was handed over in the epoch.
  const bool completed = device_.side().completed(out_.epoch());
  device_.check();
  if (message_.is_device_driven()) return true;  // looked at only for what its kernels found wrong
  if (waits_for_copies()) return false;
  const std::optional<std::int32_t> handed_over = take_handed_over(HandOvers::From::call);
  out_.flush();
  return completed && out_.put_count() == handed_over && out_.finished() && is_packed();
}

/// What kernels have left to the host in this epoch leaves; returns how many transport partitions that are so far, or
/// nothing where another thread is at it.
std::optional<std::int32_t> SendRequest::take_handed_over(HandOvers::From from) {
  const bool looks_again_soon = services_.progress.can_be_prompt();
  return hand_overs_.take_transfers(
      device_.side(), out_.epoch(), [this](link::Range run) { send_handed_over(run); }, CloseMarks(),
      transports_worth_a_transfer(), looks_again_soon ? HandOvers::Joining::stay : HandOvers::Joining::leave, from);
}

/// So many neighbours are copied for longer than what starts and ends a transfer, so that the rest may follow.
std::int32_t SendRequest::transports_worth_a_transfer() const {
  const std::int64_t each_bytes = std::max(out_.plan().bytes(0).size(), std::int64_t{1});
  const std::int64_t worth_it_bytes =
      std::max(out_.plan().total_bytes() / transfers_of_a_message, least_transfer_bytes);
  return static_cast<std::int32_t>(
      std::min((worth_it_bytes + each_bytes - 1) / each_bytes, std::int64_t{std::numeric_limits<std::int32_t>::max()}));
}

/// Kernels hand over whole transport partitions, which are whole partitions of a send.
void SendRequest::send_handed_over(link::Range run) {
  if (packing_ == nullptr) return out_.submit(run);
  mark_for_packing({out_.plan().send_run(run.begin).begin, out_.plan().send_run(run.end - 1).end});
}

/// Whether what kernels have left to the host had better leave later, with more of it. What is packed first leaves
/// together as what hosts mark does.
bool SendRequest::waits_for_copies() const {
  return packing_ == nullptr && device_.side().hands_over(out_.epoch()) && out_.busy();
}

/// Only puts: whether they have finished is asked by who waits for the epoch, once all of them are issued. What kernels
/// mark while the link is busy leaves together.
bool SendRequest::device_step() {
  enter_gpu();
  if (waits_for_copies()) return false;
  const std::int32_t before = out_.put_count();
  take_handed_over(HandOvers::From::step);
  out_.flush();
  return out_.put_count() != before;
}

link::DeviceRoute SendRequest::device_route() {
  if (out_.active() && first_marked() < message_.partitions()) {
    throw Error(ErrorClass::request,
                "the host has marked partitions of this epoch already; one side marks all partitions of an epoch");
  }
  short_way_.store(0, std::memory_order_relaxed);
  std::optional<link::DeviceSendRoute> route;  // not asked for in vain: a link keeps for kernels what it has named
  if (packing_ == nullptr) route = out_.device_route();
  const bool kernel_copy = route && message_.arguments().gpu_copy != GpuCopy::engine;
  const auto need = [&](bool wanted, const char* what) {
    if (!wanted || kernel_copy) return;
    if (packing_ != nullptr) {
      throw Error(ErrorClass::type,
                  "{}, but the request's datatype has gaps, and kernels of the program pack nothing; expected is a "
                  "datatype without gaps",
                  what);
    }
    throw Error(ErrorClass::other, "{}, but kernels cannot reach the receive buffer over link {} ({}){}", what,
                out_.link_name(), out_.link_reason(),
                route ? ", and PARTITA_GPU_COPY or partita_gpu_copy is engine" : "");
  };
  need(message_.arguments().gpu_copy == GpuCopy::kernel, "PARTITA_GPU_COPY or partita_gpu_copy is kernel");
  need(message_.is_device_driven(), "the request is device-driven (info key partita_driver)");
  need(message_.arguments().in_place, "the request's partitions are stored in place (info key partita_in_place)");
  if (!kernel_copy) route.reset();
  return route;
}

std::optional<link::StreamRoute> SendRequest::stream_route() {
  if (out_.terms().driver != link::Driver::stream) return {};
  const auto route = out_.device_route();
  return route ? route->stream : std::nullopt;
}

bool SendRequest::prepared() {
  if (!out_.active()) {
    throw Error(ErrorClass::request, "the send is inactive; expected is an active one (call Start first)");
  }
  if (message_.null_peer()) return true;
  out_.throw_if_failed();
  if (!out_.matched()) return false;
  const bool lost = out_.is_lost();
  const bool prepared = out_.receiver_has_started();
  if (lost && !prepared) throw out_.why_lost();
  if (prepared && device_.exists()) device_.tell_ready();
  return prepared;
}

std::uint64_t SendRequest::partitions_so_far() const {
  return static_cast<std::uint64_t>(out_.put_count());
}

std::string SendRequest::describe_epoch() const {
  std::vector<std::int64_t> unmarked;
  std::int64_t being_packed = 0;
  for (std::int64_t p = 0; p < message_.partitions(); ++p) {
    if (!is_marked(p)) {
      unmarked.push_back(p);
    } else if (!out_.is_complete(p)) {
      ++being_packed;
    }
  }
  const std::int32_t sent = out_.put_count();
  const bool leaving = sent == out_.plan().transport_partitions() && !out_.finished();
  return fmt::format(
      "{} of {} partitions not marked{}{}; {} of {} transport partitions sent{}, {} waiting for the receiver, which {}",
      unmarked.size(), message_.partitions(), listed(unmarked),
      being_packed > 0 ? fmt::format(", {} being packed by the GPU", being_packed) : "", sent,
      out_.plan().transport_partitions(), leaving ? ", of which bytes are still on their way out of the buffer" : "",
      out_.deferred_count(), out_.receiver_is_ready() ? "can take more" : "has not started this epoch");
}

}  // namespace partita
