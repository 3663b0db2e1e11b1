#include "partitioned/request.hpp"

#include <exception>
#include <utility>

#include "core/current_error.hpp"

namespace partita {

Request::Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets)
    : Operation({facets.markable, facets.awaitable, &device_,
                 arguments.driver == link::Driver::device ? &stream_epochs_ : nullptr},
                arguments.communicator),
      services_(services),
      message_(services.device_memory, std::move(arguments)),
      half_(half),
      device_(services, *this),
      stream_epochs_(device_, *this) {
  if (message_.null_peer() || message_.contiguous() || !message_.in_gpu_memory()) return;
  GpuPacking::Owner& owner = *this;
  packing_ = std::make_unique<GpuPacking>(services, owner, message_);
}

void Request::enter_gpu() const {
  if (in_gpu_memory()) services_.device_memory.make_current(message_.place().device);
}

bool Request::matched() const {
  if (message_.null_peer()) return true;
  half_.throw_if_failed();
  return half_.matched();
}

/// Behind waits that stand in streams memory is not taken from a GPU, which may let the call stand as long. A send has
/// the program's device request. One that has failed or was given up has no use for any, and its start tells why.
void Request::match_is_seen() {
  if (!message_.is_device_driven() || message_.is_sent() || message_.null_peer()) return;
  if (!half_.matched() || half_.failed() || half_.given_up() || !why_no_kernels().empty()) return;
  device_.for_own_kernels();
}

void Request::close() {
  record(Trace::Event::completed);
  device_.leave_epoch();
  if (std::exchange(progress_is_wanted_, false)) services_.progress.unwant();
  half_.set_active(false);
}

void Request::want_progress() {
  services_.progress.want();
  progress_is_wanted_ = true;
}

void Request::abandon(const std::optional<Error>& cause) {
  const auto first_lost = end_epoch(cause);
  if (device_.exists() && message_.is_device_driven()) device_.answer_without_thread();
  if (first_lost && cause) half_.say(*first_lost, "gave its request up", *cause);
}

/// Returns the first epoch that the other side has lost by it, if any and if that is known by now.
std::optional<Epoch> Request::end_epoch(const std::optional<Error>& cause) {
  const auto exclusive = services_.progress.exclusive();  // before the other lock, as in a step that finishes the setup
  const std::lock_guard lock(half_.setup_mutex());
  if (device_.exists() && message_.is_device_driven()) {
    // Only the GPU knows the epochs of kernels: those that have come to their end are nobody's loss.
    half_.give_up();
    if (!why_given_up_) why_given_up_ = cause;
    device_.end_kernels();
    return {};
  }
  if (device_.exists()) device_.side().abort();
  // Kernels that were released mark no more. With nobody at the other side the next epoch is as good as any.
  if (message_.null_peer() || !(active() || device_.exists() || message_.is_device_driven())) {
    if (active()) close();
    return {};
  }
  half_.give_up();
  if (!active()) return next(epoch());
  bool over = false;
  try {
    over = half_.matched() && epoch_is_over();
  } catch (const std::exception&) {
    // Not that anybody knows.
  }
  close_packing();
  half_.give_up_epoch();
  close();
  return over ? next(epoch()) : epoch();
}

/// Without a cause the peer hears of the free, which follows. Where the GPU does not tell an older epoch does as well.
void Request::hear_last_epoch(const std::optional<DeviceSide::LastEpoch>& last) {
  if (!why_given_up_) return;
  const Epoch first_lost = !last ? next(epoch()) : last->is_over ? next(last->epoch) : last->epoch;
  half_.say(first_lost, "gave its request up", *why_given_up_);
}

void Request::withdraw() {
  close_packing();
  half_.withdraw();
  device_.drop();
}

void Request::close_packing() noexcept {
  if (packing_ != nullptr) packing_->close();
}

void Request::could_not_move() noexcept {
  try {
    half_.fail_with_current(message_.is_sent() ? "could not pack what it sends" : "could not take what has arrived");
  } catch (const std::exception&) {
    // There is no memory to tell it.
  }
}

void Request::fill_status(MPI_Status* status) const {
  if (message_.null_peer()) return set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  if (message_.is_sent()) return set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  set_status(status, message_.arguments().rank, message_.arguments().tag, half_.plan().total_bytes());
}

std::vector<InfoEntry> Request::info() const {
  std::vector<InfoEntry> entries{{"partita_kind", kind()},
                                 {"partita_active", active() ? "true" : "false"},
                                 {"partita_matched", half_.matched() ? "true" : "false"}};
  if (!message_.null_peer()) entries.push_back({"partita_memory", std::string(name_of(message_.place().kind))});
  if (!half_.matched()) return entries;
  entries.push_back({"partita_link", half_.link_name()});
  entries.push_back({"partita_reason", half_.link_reason()});
  entries.push_back({"partita_transport_partitions", std::to_string(half_.plan().transport_partitions())});
  if (device_.exists()) {
    entries.push_back({"partita_gpu_copy", device_.side().kernel_copies() ? "kernel" : "engine"});
    entries.push_back({"partita_packets", device_.side().in_packets() ? "true" : "false"});
  }
  return entries;
}

void Request::check_startable() {
  const bool usual = !message_.is_device_driven() && !active() && !half_.failed() && !half_.given_up() &&
                     !half_.ending.heard() && !device_.exists();
  if (!usual) look_if_startable();
}

void Request::look_if_startable() {
  if (message_.is_device_driven()) {
    throw Error(
        ErrorClass::request,
        "the request is device-driven (info key partita_driver), so that the host does not start it; expected is "
        "MPIX_Pstart in a kernel, or Enqueue_start in a queue of a CUDA stream");
  }
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  half_.throw_if_failed();
  half_.throw_if_given_up();
  if (const auto mistake = device_.untold_mistake()) {
    abandon(mistake);
    throw Error(*mistake);
  }
  if (half_.ending.heard() && half_.ending.loses(next(epoch()))) throw half_.why_lost();
}

partita_u32 Request::sides() const {
  return message_.is_sent() ? PARTITA_PREQUEST_SEND : PARTITA_PREQUEST_RECV;
}

bool Request::knows_prequest_terms() const {
  half_.throw_if_failed();
  return half_.matched();
}

PrequestTerms Request::prequest_terms() {
  const HalfTerms& terms = half_.terms();
  link::DeviceRoute route = device_route();
  // Behind that: a peer that has ended later is not let go of while kernels know the way to it.
  if (message_.is_sent() && active() && half_.is_lost()) throw half_.why_lost();
  return {.sides = sides(),
          .driver = terms.driver,
          .data = terms.data,
          .place = terms.place,
          .in_place = terms.in_place && message_.is_sent(),
          .plan = plan_for_kernels(),
          .route = route,
          .timeout_s = services_.settings.timeout_s};
}

void Request::throw_if_over() const {
  half_.throw_if_failed();
  half_.throw_if_given_up();
}

std::optional<Error> Request::why_peers_are_lost(KernelFindings& findings) {
  if (epoch_is_lost()) return half_.why_lost(name());
  return findings.why_ended(half_.peer(), name());
}

/// Whether the other side has ended so that the open epoch cannot complete. Which one that is, where kernels open them,
/// the GPU is asked.
bool Request::epoch_is_lost() const {
  if (!message_.is_device_driven()) return half_.is_lost();
  if (!half_.ending.heard()) return false;
  try {
    const DeviceSide::LastEpoch last = device_.side().last_epoch();
    return !last.is_over && half_.ending.loses(last.epoch);
  } catch (const Error&) {
    return false;  // the GPU works no longer, as the next look finds
  }
}

void Request::fail_for_kernels(const Error& error, Mail::Caller caller) {
  half_.fail_on_both_sides("failed", error, caller);
}

/// Flags, credits and the other side know the epochs that kernels have opened. One that they have not completed is
/// lost.
void Request::take_over_epochs() {
  const DeviceSide::LastEpoch last = device_.side().last_epoch();
  half_.set_epoch(last.epoch);
  if (last.is_over || half_.given_up()) return;
  half_.give_up();
  half_.say(last.epoch, "gave its request up",
            Error(ErrorClass::request, "it was freed before its kernels had {} epoch {}. {}",
                  message_.is_sent() ? "marked all of" : "completed", last.epoch, name()));
}

std::uint64_t Request::how_far() const {
  return half_.matched() ? 1 + partitions_so_far() : 0;
}

std::string Request::name() const {
  return fmt::format("{}, epoch {}", message_.name(), epoch());
}

std::string Request::explain() const {
  std::string text = name() + ": ";
  if (message_.null_peer()) return text + "the peer is MPI_PROC_NULL";
  if (half_.peer_freed) text += "the peer has freed its request; ";
  if (!half_.matched()) return text + services_.matcher.explain_unmatched(half_);
  return text + fmt::format("link {}, {} transport partitions, {}", half_.link_name(),
                            half_.plan().transport_partitions(), active() ? describe_epoch() : "inactive");
}

}  // namespace partita
