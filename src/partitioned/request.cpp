#include "partitioned/request.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/current_error.hpp"

namespace partita {

Request::Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets)
    : Operation({facets.markable, facets.awaitable, this}, arguments.communicator),
      services_(services),
      arguments_(std::move(arguments)),
      layout_(Layout::of(arguments_.datatype)),
      half_(half) {
  if (null_peer()) return;
  place_ = services.device_memory.place_of(user_data(), static_cast<std::size_t>(total_bytes()));
  if (in_gpu_memory() && !layout_.contiguous()) {
    throw Error(
        ErrorClass::type,
        "argument datatype has gaps and argument buf is GPU memory, which Partita cannot pack yet; expected is a "
        "contiguous datatype or host memory");
  }
  if ((device_driven() || arguments_.in_place) && place_.kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer, "info key {} needs a buffer in the memory of one GPU; argument buf is {} memory",
                device_driven() ? "partita_driver=device" : "partita_in_place", name_of(place_.kind));
  }
}

std::int64_t Request::total_bytes() const {
  return arguments_.partitions * arguments_.count * layout_.size_bytes();
}

HalfTerms Request::terms() const {
  HalfTerms terms;
  terms.side = arguments_.side;
  terms.peer = arguments_.peer;
  terms.shape = {arguments_.partitions, total_bytes(), arguments_.transport_partitions, in_gpu_memory() ? 1 : 0};
  terms.link = arguments_.link;
  terms.data = user_data();
  terms.packed_apart = !layout_.contiguous() && !null_peer();
  terms.place = place_;
  terms.driver = arguments_.driver;
  terms.in_place = arguments_.in_place;
  return terms;
}

void Request::enter_gpu() const {
  if (in_gpu_memory()) services_.device_memory.make_current(place_.device);
}

bool Request::open() const {
  if (active()) return true;
  if (device_ == nullptr) return false;
  if (failed()) return device_driven() && !half_.failure_is_told();
  return device_->has_news();
}

void Request::close() {
  record(Trace::Event::completed);
  if (device_ != nullptr) services_.engine.remove(*this);
  if (std::exchange(progress_is_wanted_, false)) services_.progress.unwant();
  half_.set_active(false);
}

void Request::want_progress() {
  services_.progress.want();
  progress_is_wanted_ = true;
}

void Request::abandon(const std::optional<Error>& cause) {
  const auto first_lost = end_epoch();
  if (first_lost && cause) half_.say(*first_lost, "gave its request up", *cause);
}

/// Returns the first epoch that the other side has lost by it, if any.
std::optional<Epoch> Request::end_epoch() {
  const auto exclusive = services_.progress.exclusive();  // before the other lock, as in a step that finishes the setup
  const std::lock_guard lock(half_.setup_mutex());
  if (device_ != nullptr) device_->abort();
  // Kernels that were released mark no more, and the host does not see the epochs of a device-driven request: one may
  // be open. With nobody at the other side the next epoch is as good as any.
  if (null_peer() || !(active() || device_ != nullptr || device_driven())) {
    if (active()) close();
    return {};
  }
  half_.give_up();
  if (!active()) return next(epoch());
  bool over = false;
  try {
    over = matched() && epoch_is_over();
  } catch (const std::exception&) {
    // Not that anybody knows.
  }
  give_up_epoch();
  close();
  return over ? next(epoch()) : epoch();
}

void Request::fill_status(MPI_Status* status) const {
  if (null_peer()) return set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  if (side() == Side::send) return set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  set_status(status, arguments_.rank, arguments_.tag, total_bytes());
}

std::vector<InfoEntry> Request::info() const {
  std::vector<InfoEntry> entries{{"partita_kind", side() == Side::send ? "send" : "recv"},
                                 {"partita_active", active() ? "true" : "false"},
                                 {"partita_matched", matched() ? "true" : "false"}};
  if (!matched()) return entries;
  entries.push_back({"partita_link", link_name()});
  entries.push_back({"partita_reason", link_reason()});
  entries.push_back({"partita_transport_partitions", std::to_string(plan().transport_partitions())});
  if (device_ != nullptr) {
    entries.push_back({"partita_gpu_copy", device_->kernel_copies() ? "kernel" : "engine"});
    entries.push_back({"partita_packets", device_->in_packets() ? "true" : "false"});
  }
  return entries;
}

void Request::throw_if_given_up() const {
  if (!half_.given_up()) return;
  throw Error(
      ErrorClass::request,
      "an earlier epoch of the request ended with an error, so that the epochs of its two sides no longer agree; "
      "free it at both ends and make it anew. {}",
      explain());
}

const Partita_Prequest& Request::make_device_request() {
  if (null_peer()) {
    throw Error(ErrorClass::request, "the peer is MPI_PROC_NULL, to which kernels have nothing to mark");
  }
  if (device_ != nullptr) {
    throw Error(ErrorClass::request, "the request has a device request already; expected is one at a time");
  }
  if (place_.kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer,
                "the buffer of the request is {} memory; expected is memory of one GPU (cudaMalloc or the like)",
                name_of(place_.kind));
  }
  half_.throw_if_failed();
  throw_if_given_up();
  Partita_Prequest view = device_view();
  view.buffer = reinterpret_cast<unsigned char*>(user_data());
  view.total_bytes = plan().total_bytes();
  view.send_partition_bytes = plan().send_partition_bytes();
  view.recv_partition_bytes = plan().recv_partition_bytes();
  view.send_partitions = plan().send_partitions();
  view.recv_partitions = plan().recv_partitions();
  view.transport_partitions = plan().transport_partitions();
  if (device_driven()) view.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
  const Epoch before = active() ? epoch() - 1 : epoch();
  device_ = std::make_unique<DeviceSide>(services_.host_memory, services_.device_memory, place_.device, view, before,
                                         services_.settings.timeout_s);
  device_life_.store(device_->view().life, std::memory_order_relaxed);
  if (!device_driven() && !wants_progress_) {
    wants_progress_ = kernels_want_progress_ = true;  // a kernel may leave a transfer to the host
    if (active()) want_progress();
  }
  if (active()) enter_device_epoch();
  try {
    services_.device_watch.add(*this);
  } catch (...) {
    drop_device_side();
    throw;
  }
  return device_->view();
}

/// Links are not asked: some call the MPI, which allows it to threads of the program alone.
void Request::watch_kernels(KernelFindings& findings) {
  if (failed()) return;
  const auto caller =
      services_.world.thread_level() == MPI_THREAD_MULTIPLE ? Mail::Caller::may_call_the_mpi : Mail::Caller::may_not;
  if (const Error* fault = findings.fault_of(place_.device)) return fail_kernels(*fault, caller);
  // The host does not know which epoch is open where kernels open them: after a free it may be one that completes.
  const bool lost = device_driven() ? half_.ending.has_failed() : half_.is_lost();
  if ((!lost && !findings.has_ended(arguments_.peer)) || !kernels_can_wait()) {
    looks_in_vain_ = 0;
    return;
  }
  // What the peer had sent may still be on its way at the first look.
  if (++looks_in_vain_ < 2) return;
  if (lost) return fail_kernels(half_.why_lost(name()), caller);
  fail_kernels(Error(ErrorClass::other,
                     "rank {} has ended (its process is gone), and kernels that waited for it were released. {}",
                     arguments_.peer, name()),
               caller);
}

void Request::fail_kernels(const Error& error, Mail::Caller caller) {
  half_.fail_on_both_sides("failed", error, caller);
  device_->abort();
}

std::optional<Error> Request::untold_mistake() const {
  // Of one that has failed or was given up, kernels say no more than that they were released.
  if (device_ == nullptr || failed() || half_.given_up() || !device_->has_news()) return {};
  try {
    device_->check(*this);
  } catch (const Error& mistake) {
    return mistake;
  }
  return {};
}

std::optional<Error> Request::free_device_request() {
  if (device_ == nullptr) throw Error(ErrorClass::request, "the request has no device request; it was freed already");
  if (active()) {
    throw Error(ErrorClass::request, "the request is active; complete it before its device request is freed. {}",
                explain());
  }
  services_.device_watch.remove(*this);  // it names epochs
  const std::optional<Error> untold = untold_mistake();
  try {
    // Flags and credits know the epochs of its kernels: the next device request goes on behind them.
    if (device_driven() && !failed()) half_.set_epoch(device_->newest_epoch());
  } catch (const Error& error) {
    half_.fail(error);  // a GPU that does not even copy: there is no next device request, but this one can go
  }
  release_device_side();
  if (kernels_want_progress_) wants_progress_ = kernels_want_progress_ = false;
  return untold;
}

void Request::withdraw() {
  drop_device_side();
}

void Request::drop_device_side() {
  if (device_ == nullptr) return;
  services_.device_watch.remove(*this);
  try {
    if (device_driven() && !failed()) half_.set_epoch(device_->newest_epoch());  // for the last word
  } catch (const std::exception&) {
    // The GPU works no longer: an older epoch does as well.
  }
  release_device_side();
}

void Request::release_device_side() {
  services_.engine.remove(*this);  // Finalize frees active requests too
  device_life_.store(0, std::memory_order_relaxed);
  device_.reset();
}

void Request::enter_device_epoch() {
  device_->start(epoch());
  enter_engine();
}

void Request::enter_engine() {
  services_.engine.add(*this);
  services_.device_watch.wake();
}

void Request::check_startable() {
  if (device_driven()) {
    throw Error(
        ErrorClass::request,
        "the request is device-driven (info key partita_driver): only MPIX_Pstart in a kernel opens its epochs");
  }
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  half_.throw_if_failed();
  throw_if_given_up();
  if (const auto mistake = untold_mistake()) {
    abandon(*mistake);
    throw Error(*mistake);
  }
  if (half_.ending.loses(next(epoch()))) throw half_.why_lost();
}

std::uint64_t Request::how_far() const {
  return matched() ? 1 + partitions_so_far() : 0;
}

std::string Request::listed(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t most = 16;
  if (numbers.empty()) return {};
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(std::min(numbers.size(), most));
  return fmt::format(" ({}{})", fmt::join(numbers.begin(), end, ", "), numbers.size() > most ? ", …" : "");
}

std::string Request::name() const {
  const bool sends = side() == Side::send;
  return fmt::format("Partitioned {} {} rank {} (world rank {}), tag {}, {} partitions, epoch {}",
                     sends ? "send" : "receive", sends ? "to" : "from", arguments_.rank, arguments_.peer,
                     arguments_.tag, arguments_.partitions, epoch());
}

std::string Request::explain() const {
  std::string text = name() + ": ";
  if (null_peer()) return text + "the peer is MPI_PROC_NULL";
  if (half_.peer_freed) text += "the peer has freed its request; ";
  if (!matched()) return text + services_.matcher.explain_unmatched(half_);
  return text + fmt::format("link {}, {} transport partitions, {}", link_name(), plan().transport_partitions(),
                            active() ? describe_epoch() : "inactive");
}

}  // namespace partita
