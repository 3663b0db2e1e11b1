#include "partitioned/request.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/current_error.hpp"
#include "core/native.hpp"
#include "partitioned/device_engine.hpp"
#include "partitioned/device_watch.hpp"
#include "partitioned/matcher.hpp"

namespace partita {

void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  // Set in bytes: MPI_Status_set_elements counts basic elements, of which a datatype may hold several kinds.
  native::Status_set_elements_x(status, MPI_BYTE, size_bytes);
  native::Status_set_cancelled(status, 0);
}

Request::Request(const RequestServices& services, RequestArguments arguments)
    : services_(services),
      arguments_(std::move(arguments)),
      layout_(Layout::of(arguments_.datatype)),
      epoch_(services.settings.first_epoch) {
  if (null_peer()) return;
  place_ = services.device_memory.place_of(user_data(), static_cast<std::size_t>(shape().total_bytes));
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

Request::~Request() {
  if (host_copy_ != nullptr) {
    services_.host_memory.free_block(host_copy_, static_cast<std::size_t>(shape().total_bytes));
  }
}

SideShape Request::shape() const {
  return {arguments_.partitions, arguments_.partitions * arguments_.count * layout_.size_bytes(),
          arguments_.transport_partitions, in_gpu_memory() ? 1 : 0};
}

std::vector<link::Endpoint> Request::endpoints() const {
  const std::int64_t total_bytes = shape().total_bytes;
  const auto size = static_cast<std::size_t>(total_bytes);
  std::byte* data = staging_ != nullptr ? staging_ : user_data();
  link::Endpoint own{arguments_.peer,    data, total_bytes, place_.kind, place_.device, arguments_.driver,
                     arguments_.in_place};
  if (!in_gpu_memory()) {
    own.kind = services_.host_memory.kind_of(data, size);
    return {own};
  }
  const link::Endpoint staged{arguments_.peer,  nullptr, total_bytes, memory::Kind::host_exported, -1,
                              arguments_.driver};
  return {own, staged};
}

link::Endpoint Request::allocated(link::Endpoint endpoint) {
  if (!in_gpu_memory() || !memory::is_host(endpoint.kind)) return endpoint;
  if (host_copy_ == nullptr) {
    host_copy_ = services_.host_memory.allocate_block(static_cast<std::size_t>(endpoint.size_bytes));
    services_.device_memory.device_pointer(place_.device, host_copy_);  // page-locked: the GPU copies at full speed
  }
  endpoint.data = host_copy_;
  return endpoint;
}

void Request::enter_gpu() const {
  if (in_gpu_memory()) services_.device_memory.make_current(place_.device);
}

void Request::record(Trace::Event event, std::int64_t partition) const {
  services_.trace.record(event, matching.id, epoch_, partition);
}

void Request::complete() {
  record(Trace::Event::completed);
  if (device_ != nullptr) services_.engine.remove(*this);
  if (std::exchange(progress_is_wanted_, false)) services_.progress.unwant();
  active_.store(false, std::memory_order_release);
}

bool Request::close_if_done() {
  if (active() && done()) complete();
  return !active();
}

void Request::want_progress() {
  services_.progress.want();
  progress_is_wanted_ = true;
}

void Request::abandon(const Error& cause) {
  if (const auto first_lost = end_epoch())
    say(*first_lost, "gave its request up", cause, Mailbox::Caller::may_call_the_mpi);
}

void Request::abandon() {
  end_epoch();
}

/// Returns the first epoch that the other side has lost by it, if any.
std::optional<Epoch> Request::end_epoch() {
  const auto exclusive = services_.progress.exclusive();  // before the other lock, as in a step that finishes the setup
  const std::lock_guard lock(setup_mutex_);
  if (device_ != nullptr) device_->abort();
  // Kernels that were released mark no more, and the host does not see the epochs of a device-driven request: one may
  // be open. With nobody at the other side the next epoch is as good as any.
  if (null_peer() || !(active() || device_ != nullptr || device_driven())) {
    if (active()) complete();
    return {};
  }
  given_up_.store(true, std::memory_order_release);
  if (!active()) return next(epoch_);
  bool over = false;
  try {
    over = matched() && epoch_is_over();
  } catch (const std::exception&) {
    // Not that anybody knows.
  }
  give_up_epoch();
  complete();
  return over ? next(epoch_) : epoch_;
}

void Request::fill_status(MPI_Status* status) const {
  if (null_peer()) return set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  if (side() == Side::send) return set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  set_status(status, arguments_.rank, arguments_.tag, shape().total_bytes);
}

void Request::fail(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
}

void Request::fail_on_both_sides(const char* what, const Error& error, Mailbox::Caller caller) {
  fail(error);
  // Before the match the program's thread may open an epoch meanwhile, and none has completed.
  say(!matched() ? next(services_.settings.first_epoch) : active() ? epoch_ : next(epoch_), what, error, caller);
}

void Request::say(Epoch first_lost, const char* what, const Error& error, Mailbox::Caller caller) {
  matching.ending.say({first_lost, error.error_class(),
                       fmt::format("the {}, rank {}, {}: {}", side() == Side::send ? "sender" : "receiver",
                                   services_.world.rank(), what, error.sentence())});
  services_.matcher.send_last_word(*this, caller);
}

Error Request::why_lost(const std::string& state) const {
  const LastWord& word = matching.ending.heard_word();
  if (!word.cause.empty()) return Error(word.error_class, "{}", word.cause);
  return Error(ErrorClass::request, "the {} has freed its request (rank {}): epoch {} cannot complete. {}",
               side() == Side::send ? "receiver" : "sender", arguments_.peer, word.first_lost, state);
}

Error Request::fail_with_current(const char* what) {
  Error error = current_error();
  fail_on_both_sides(what, error);
  return error;
}

void Request::throw_if_failed() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) return;
  told_.store(true, std::memory_order_relaxed);
  throw Error(*failure_);
}

void Request::throw_if_given_up() const {
  if (!given_up_.load(std::memory_order_acquire)) return;
  throw Error(
      ErrorClass::request,
      "an earlier epoch of the request ended with an error, so that the epochs of its two sides no longer agree; "
      "free it at both ends and make it anew. {}",
      explain());
}

const Partita_Prequest& Request::make_device_side() {
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
  throw_if_failed();
  throw_if_given_up();
  Partita_Prequest view = device_view();
  view.buffer = reinterpret_cast<unsigned char*>(user_data());
  view.total_bytes = plan_.total_bytes();
  view.send_partition_bytes = plan_.send_partition_bytes();
  view.recv_partition_bytes = plan_.recv_partition_bytes();
  view.send_partitions = plan_.send_partitions();
  view.recv_partitions = plan_.recv_partitions();
  view.transport_partitions = plan_.transport_partitions();
  if (device_driven()) view.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
  const Epoch before = active() ? epoch_ - 1 : epoch_;
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
  const auto caller = services_.world.thread_level() == MPI_THREAD_MULTIPLE ? Mailbox::Caller::may_call_the_mpi
                                                                            : Mailbox::Caller::may_not;
  if (const Error* fault = findings.fault_of(place_.device)) return fail_kernels(*fault, caller);
  // The host does not know which epoch is open where kernels open them: after a free it may be one that completes.
  const bool lost = device_driven() ? matching.ending.has_failed() : is_lost();
  if ((!lost && !findings.has_ended(arguments_.peer)) || !kernels_can_wait()) {
    looks_in_vain_ = 0;
    return;
  }
  // What the peer had sent may still be on its way at the first look.
  if (++looks_in_vain_ < 2) return;
  if (lost) return fail_kernels(why_lost(name()), caller);
  fail_kernels(Error(ErrorClass::other,
                     "rank {} has ended (its process is gone), and kernels that waited for it were released. {}",
                     arguments_.peer, name()),
               caller);
}

void Request::fail_kernels(const Error& error, Mailbox::Caller caller) {
  fail_on_both_sides("failed", error, caller);
  device_->abort();
}

std::optional<Error> Request::untold_mistake() const {
  // Of one that has failed or was given up, kernels say no more than that they were released.
  if (device_ == nullptr || failed() || given_up_.load(std::memory_order_acquire) || !device_->has_news()) return {};
  try {
    device_->check(*this);
  } catch (const Error& mistake) {
    return mistake;
  }
  return {};
}

std::optional<Error> Request::free_device_side() {
  if (device_ == nullptr) throw Error(ErrorClass::request, "the request has no device request; it was freed already");
  if (active()) {
    throw Error(ErrorClass::request, "the request is active; complete it before its device request is freed. {}",
                explain());
  }
  services_.device_watch.remove(*this);  // it names epochs
  const std::optional<Error> untold = untold_mistake();
  try {
    // Flags and credits know the epochs of its kernels: the next device request goes on behind them.
    if (device_driven() && !failed()) epoch_ = device_->newest_epoch();
  } catch (const Error& error) {
    fail(error);  // a GPU that does not even copy: there is no next device request, but this one can go
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
    if (device_driven() && !failed()) epoch_ = device_->newest_epoch();  // for the last word
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
  device_->start(epoch_);
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
  throw_if_failed();
  throw_if_given_up();
  if (const auto mistake = untold_mistake()) {
    abandon(*mistake);
    throw Error(*mistake);
  }
  if (matching.ending.loses(next(epoch_))) throw why_lost();
  loop_watch_.begin();
}

std::optional<Error> Request::look_in_vain() {
  try {
    loop_watch_.look(*this, services_.settings, services_.world, services_.progress);
  } catch (const WaitError& error) {
    return error;
  }
  return {};
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
                     arguments_.tag, arguments_.partitions, epoch_);
}

std::string Request::explain() const {
  std::string text = name() + ": ";
  if (null_peer()) return text + "the peer is MPI_PROC_NULL";
  if (matching.peer_freed) text += "the peer has freed its request; ";
  if (!matched()) return text + services_.matcher.explain_unmatched(*this);
  return text + fmt::format("link {}, {} transport partitions, {}", link_name_, plan_.transport_partitions(),
                            active() ? describe_epoch() : "inactive");
}

}  // namespace partita
