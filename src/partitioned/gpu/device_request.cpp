#include "partitioned/gpu/device_request.hpp"

#include <utility>

#include "core/current_error.hpp"
#include "partita/device/impl/words.hpp"

namespace partita {

bool DeviceRequest::can_make_device_request() {
  half_.throw_if_failed();
  return half_.matched() || half_.peer() < 0;
}

const Partita_Prequest& DeviceRequest::make_device_request() {
  check_can_be_made();
  if (half_.peer() < 0) return make_for_nobody();
  const PrequestTerms terms{half_.terms(), half_.plan(), owner_.device_route(), services_.settings.timeout_s};
  const Epoch before = half_.active() ? half_.epoch() - 1 : half_.epoch();
  side_ = std::make_unique<DeviceSide>(services_.host_memory, services_.device_memory, terms, before);
  life_.store(side_->view().life, std::memory_order_relaxed);
  if (half_.active()) {
    side_->start(half_.epoch());
    enter_epoch();
  }
  try {
    const bool is_told = half_.side() == Side::send && !device_driven();
    if (is_told) services_.ready_notes.set_up(half_.terms().place.device);
    services_.device_watch.add(*this);
  } catch (...) {
    drop();
    throw;
  }
  return side_->view();
}

const Partita_Prequest& DeviceRequest::make_for_nobody() {
  to_nobody_ = std::make_unique<const Partita_Prequest>(make_prequest_to_nobody(half_.terms(), new_prequest_life()));
  life_.store(to_nobody_->life, std::memory_order_relaxed);
  return *to_nobody_;
}

void DeviceRequest::check_can_be_made() const {
  if (exists() || to_nobody_) {
    throw Error(ErrorClass::request, "the request has a device request already; expected is one at a time");
  }
  if (half_.peer() < 0) return;
  if (half_.terms().place.kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer,
                "the buffer of the request is {} memory; expected is memory of one GPU (cudaMalloc or the like)",
                name_of(half_.terms().place.kind));
  }
  half_.throw_if_failed();
  half_.throw_if_given_up();
}

std::optional<Error> DeviceRequest::free_device_request() {
  if (!exists() && !to_nobody_) {
    throw Error(ErrorClass::request, "the request has no device request; it was freed already");
  }
  if (half_.active()) {
    throw Error(ErrorClass::request, "the request is active; complete it before its device request is freed. {}",
                half_.explain());
  }
  if (to_nobody_) {
    release();
    return {};
  }
  services_.device_watch.remove(*this);  // it names epochs
  const std::optional<Error> untold = untold_mistake();
  try {
    take_over_epoch();
  } catch (const Error& error) {
    half_.fail(error);  // a GPU that does not even copy: there is no next device request, but this one can go
  }
  release();
  return untold;
}

void DeviceRequest::drop() {
  if (!exists()) return release();
  services_.device_watch.remove(*this);
  try {
    take_over_epoch();  // for the last word
  } catch (const std::exception&) {
    // The GPU works no longer: an older epoch does as well.
  }
  release();
}

/// Flags, credits and the other side know the epochs that kernels have opened: what follows goes on behind them. Of a
/// send whose kernels have not marked all of its last epoch that one is lost. Throws Error where the GPU works no
/// longer.
void DeviceRequest::take_over_epoch() {
  if (!device_driven() || failed()) return;
  const auto [epoch, has_left] = side_->last_epoch();
  half_.set_epoch(epoch);
  if (has_left || half_.given_up()) return;
  half_.give_up();
  half_.say(epoch, "gave its request up",
            Error(ErrorClass::request, "it was freed before its kernels had marked all of epoch {}. {}", epoch,
                  owner_.name()));
}

void DeviceRequest::release() {
  leave_epoch();
  life_.store(0, std::memory_order_relaxed);
  if (told_ready_ != no_epoch) services_.ready_notes.drain(half_.terms().place.device);
  told_ready_ = no_epoch;
  side_.reset();
  to_nobody_.reset();
}

void DeviceRequest::enter_epoch() {
  services_.device_watch.enter_epoch(*this);
  services_.progress.activate(*this);  // a kernel may leave a transfer to the host
  is_served_ = true;
}

void DeviceRequest::tell_ready() {
  if (told_ready_ == half_.epoch()) return;
  told_ready_ = half_.epoch();
  services_.ready_notes.send(half_.terms().place.device, device::seen_ready(side_->view().state), told_ready_);
}

void DeviceRequest::end_service() {
  is_served_ = false;
  services_.progress.dismiss(*this);
  services_.device_watch.leave_epoch(*this);
}

ActiveStep::Outcome DeviceRequest::step() noexcept {
  try {
    if (!failed()) return owner_.device_step() ? Outcome::moved : Outcome::waiting;
    side_->abort();  // another step has failed the half, or a call of the program
    return Outcome::idle;
  } catch (const std::exception&) {
    fail_in_step();
    return Outcome::waiting;
  }
}

void DeviceRequest::fail_in_step() noexcept {
  try {
    fail_kernels(current_error(), Mail::Caller::may_call_the_mpi);
  } catch (const std::exception&) {
    // There is no memory even for that; the next step fails as well.
  }
}

bool DeviceRequest::has_news() const {
  if (!exists()) return false;
  if (failed()) return device_driven() && !half_.failure_is_told();
  return side_->has_news();
}

void DeviceRequest::check() const {
  if (const auto mistake = side_->mistake()) throw Error(ErrorClass::other, "{}. {}", *mistake, half_.explain());
}

std::optional<Error> DeviceRequest::untold_mistake() const {
  // The kernels of one that has failed or was given up say no more than that they were released.
  if (!exists() || failed() || half_.given_up() || !side_->has_news()) return {};
  try {
    check();
  } catch (const Error& mistake) {
    return mistake;
  }
  return {};
}

/// Links are not asked: some call the MPI, which allows it to threads of the program alone.
void DeviceRequest::watch_kernels(KernelFindings& findings) {
  if (failed()) return;
  const auto error = why_in_vain(findings);
  if (!error) return;
  fail_kernels(*error, services_.world.thread_level() == MPI_THREAD_MULTIPLE ? Mail::Caller::may_call_the_mpi
                                                                             : Mail::Caller::may_not);
}

/// Why kernels wait in vain, if they do.
std::optional<Error> DeviceRequest::why_in_vain(KernelFindings& findings) {
  if (const Error* fault = findings.fault_of(half_.terms().place.device)) return *fault;
  const bool lost = epoch_is_lost();
  if ((!lost && !findings.has_ended(half_.peer())) || !owner_.kernels_can_wait()) {
    looks_in_vain_ = 0;
    return {};
  }
  // What the peer had sent may still be on its way at the first look.
  if (++looks_in_vain_ < 2) return {};
  if (lost) return half_.why_lost(owner_.name());
  return Error(ErrorClass::other,
               "rank {} has ended (its process is gone), and kernels that waited for it were released. {}",
               half_.peer(), owner_.name());
}

/// Whether the other side has ended so that the open epoch cannot complete. Which one that is, where kernels open them,
/// the GPU is asked.
bool DeviceRequest::epoch_is_lost() const {
  if (!device_driven()) return half_.is_lost();
  try {
    return half_.ending.heard() && half_.ending.loses(side_->last_epoch().epoch);
  } catch (const Error&) {
    return false;  // the GPU works no longer, as the next look finds
  }
}

void DeviceRequest::fail_kernels(const Error& error, Mail::Caller caller) {
  half_.fail_on_both_sides("failed", error, caller);
  side_->abort();
}

}  // namespace partita
