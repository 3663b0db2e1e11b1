#include "partitioned/gpu/device_request.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "core/current_error.hpp"
#include "partita/device/impl/words.hpp"

namespace partita {
namespace {

constexpr auto time_for_an_answer = std::chrono::milliseconds(100);

}  // namespace

bool DeviceRequest::can_make_device_request() {
  return owner_.is_to_nobody() || owner_.knows_prequest_terms();
}

const Partita_Prequest& DeviceRequest::make_device_request() {
  const std::lock_guard lock(made_mutex_);
  if (!is_own_) return make();
  owner_.throw_if_over();
  is_own_ = false;
  return side_->view();
}

const Partita_Prequest& DeviceRequest::for_own_kernels() {
  const std::lock_guard lock(made_mutex_);
  if (exists()) return side_->view();
  const Partita_Prequest& made = make();
  is_own_ = true;
  return made;
}

const Partita_Prequest& DeviceRequest::make() {
  check_can_be_made();
  if (owner_.is_to_nobody()) return make_for_nobody();
  const PrequestTerms terms = owner_.prequest_terms();
  const bool joins = owner_.active() && !device_driven();  // an epoch that the host has opened
  const Epoch before = joins ? owner_.epoch() - 1 : owner_.epoch();
  change_side(std::make_unique<DeviceSide>(services_.host_memory, services_.device_memory, terms, before));
  if (joins) {
    side_->start(owner_.epoch());
    enter_epoch();
  }
  try {
    const bool is_told = (owner_.sides() & PARTITA_PREQUEST_SEND) != 0 && !device_driven();
    if (is_told) services_.ready_notes.set_up(terms.place.device);
    if (device_driven()) owner_.set_up_reductions();
    services_.device_watch.add(*this);
    if (device_driven() && owner_.active()) owner_.join_epoch();
    if (owner_.serves_epochs_of_kernels()) services_.progress.activate(*this);
  } catch (...) {
    drop();
    throw;
  }
  life_.store(side_->view().life, std::memory_order_release);  // pairs with was_made()
  return side_->view();
}

const Partita_Prequest& DeviceRequest::make_for_nobody() {
  to_nobody_ = std::make_unique<const Partita_Prequest>(
      make_prequest_to_nobody(owner_.sides(), owner_.driver(), new_prequest_life()));
  life_.store(to_nobody_->life, std::memory_order_relaxed);
  return *to_nobody_;
}

void DeviceRequest::check_can_be_made() const {
  if (exists() || to_nobody_) {
    throw Error(ErrorClass::request, "the request has a device request already; expected is one at a time");
  }
  if (owner_.is_to_nobody()) return;
  if (const memory::Kind kind = owner_.place().kind; kind != memory::Kind::device) {
    throw Error(ErrorClass::buffer,
                "the buffer of the request is {} memory; expected is memory of one GPU (cudaMalloc or the like)",
                name_of(kind));
  }
  owner_.throw_if_over();
}

std::optional<Error> DeviceRequest::free_device_request() {
  if (!exists() && !to_nobody_) {
    throw Error(ErrorClass::request, "the request has no device request; it was freed already");
  }
  if (owner_.active()) {
    throw Error(ErrorClass::request, "the request is active; complete it before its device request is freed. {}",
                owner_.explain());
  }
  if (to_nobody_) {
    release();
    return {};
  }
  services_.device_watch.remove(*this);  // it names epochs
  end_steps();
  const std::optional<Error> untold = untold_mistake();
  try {
    take_over_epochs();
  } catch (const Error& error) {
    owner_.fail_alone(error);  // a GPU that does not even copy: there is no next device request, but this one can go
  }
  release();
  return untold;
}

void DeviceRequest::drop() {
  if (!exists()) return release();
  services_.device_watch.remove(*this);
  try {
    end_steps();
    take_over_epochs();  // for the last word
  } catch (const std::exception&) {
    // The GPU works no longer: an older epoch does as well.
  }
  release();
}

/// Throws Error where the GPU works no longer.
void DeviceRequest::take_over_epochs() {
  if (device_driven() && !owner_.failed()) owner_.take_over_epochs();
}

void DeviceRequest::release() {
  leave_epoch();
  if (exists()) {
    services_.progress.dismiss(*this);
    if (device_driven()) owner_.end_own_kernels();
  }
  life_.store(0, std::memory_order_relaxed);
  if (told_ready_ != no_epoch) services_.ready_notes.drain(owner_.place().device);
  told_ready_ = no_epoch;
  is_own_ = false;
  if (exists()) change_side(nullptr);
  to_nobody_.reset();
}

void DeviceRequest::change_side(std::unique_ptr<DeviceSide> side) {
  const std::lock_guard lock(side_mutex_);
  side_.swap(side);
}

/// In the epoch that was opened last they do until they have marked all of it. A mark behind that stores nothing: it
/// belongs to the next epoch, which the peer has not opened. The GPU answers the next call of this.
bool DeviceRequest::kernels_may_use_peer() const {
  const std::lock_guard lock(side_mutex_);
  if (!exists()) return false;
  if (!device_driven()) return owner_.active() && !side_->completed(owner_.epoch());
  try {
    const std::optional<DeviceSide::LastEpoch> last = side_->take_last_epoch();
    if (last) return !last->is_over;
    if (!side_->owes_last_epoch()) side_->ask_last_epoch();
  } catch (const std::exception&) {
    // The GPU works no longer.
  }
  return true;
}

/// Those of a send have nothing to wait for once they have marked all.
bool DeviceRequest::kernels_may_wait() const {
  return owner_.sides() != PARTITA_PREQUEST_SEND || !side_->completed(owner_.epoch());
}

void DeviceRequest::enter_epoch() noexcept {
  // Pairs with the load in step(), which may be in the engine's list since the last epoch: it sees the new one whole.
  is_served_.store(true, std::memory_order_release);
  services_.device_watch.enter_epoch(*this);
  services_.progress.activate(*this);  // a kernel may leave a transfer to the host
}

void DeviceRequest::tell_ready() {
  if (told_ready_ == owner_.epoch()) return;
  told_ready_ = owner_.epoch();
  services_.ready_notes.send(owner_.place().device, device::seen_ready(side_->view().state), told_ready_);
}

/// Its own step goes on no more, and none begins: what stands in the engine's list finds nothing to do. To take it out
/// of there would wait for the steps of all others.
void DeviceRequest::end_service() {
  if (!owner_.serves_epochs_of_kernels()) {
    const std::lock_guard without_step(step_mutex_);
    is_served_.store(false, std::memory_order_relaxed);
  } else {
    is_served_.store(false, std::memory_order_relaxed);  // its steps go on
  }
  services_.device_watch.leave_epoch(*this);
}

/// Asks first: once they are released, what a collective's kernels were in passes for torn.
void DeviceRequest::end_kernels() {
  if (std::exchange(are_ended_, true)) return;  // an answer that is to come counts, as one that has come
  awaits_answer_ = true;
  try {
    side_->ask_last_epoch();
  } catch (const Error&) {
    // The GPU works no longer, as whoever takes the answer finds.
  }
  side_->abort();
  services_.progress.activate(*this);
}

/// The peer may wait for what it hears, and the program's next call of Partita may be far.
void DeviceRequest::answer_without_thread() {
  if (services_.progress.has_thread()) return;
  const auto exclusive = services_.progress.exclusive();
  const auto give_up = std::chrono::steady_clock::now() + time_for_an_answer;
  while (awaits_answer_ && take_answer() == Outcome::waiting) {
    if (std::chrono::steady_clock::now() > give_up) {
      hear({});
    } else {
      std::this_thread::yield();
    }
  }
  services_.progress.dismiss(*this);
}

ActiveStep::Outcome DeviceRequest::take_answer() {
  std::optional<DeviceSide::LastEpoch> last;
  try {
    last = side_->take_last_epoch();
    if (!last) {
      if (!side_->owes_last_epoch()) side_->ask_last_epoch();  // another thread has taken it
      return Outcome::waiting;
    }
  } catch (const Error&) {
    // As above.
  }
  hear(last);
  return Outcome::idle;
}

void DeviceRequest::hear(const std::optional<DeviceSide::LastEpoch>& last) {
  awaits_answer_ = false;
  owner_.hear_last_epoch(last);
}

/// Where kernels open the epochs: no step is taken any more, and what the last ones have asked the GPU for is over. By
/// the program's thread, which may wait for the GPU, as freeing does.
void DeviceRequest::end_steps() {
  if (!device_driven()) return;
  services_.progress.dismiss(*this);
  owner_.end_own_kernels();  // they may be about to tell of the end of an epoch
  if (!awaits_answer_) return;
  std::optional<DeviceSide::LastEpoch> last;
  try {
    last = side_->await_last_epoch();
  } catch (const Error&) {
    // As above.
  }
  hear(last);
}

ActiveStep::Outcome DeviceRequest::step() noexcept {
  const std::unique_lock in_step(step_mutex_, std::try_to_lock);
  if (!in_step.owns_lock()) return Outcome::waiting;  // the epoch is about to close
  try {
    if (awaits_answer_) return take_answer();
    if (!owner_.serves_epochs_of_kernels()) {
      if (!is_served_.load(std::memory_order_acquire)) return Outcome::idle;  // pairs with enter_epoch()
    } else if (owner_.given_up()) {
      return Outcome::idle;
    }
    if (!owner_.failed()) return owner_.device_step() ? Outcome::moved : Outcome::waiting;
    side_->abort();  // another step has failed the owner, or a call of the program
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
  if (owner_.failed()) return device_driven() && !owner_.failure_is_told();
  return side_->has_news();
}

void DeviceRequest::check() const {
  if (const auto mistake = side_->mistake()) throw Error(ErrorClass::other, "{}. {}", *mistake, owner_.explain());
}

std::optional<StreamRunnable::Held> DeviceRequest::held() const {
  if (!exists()) return {};
  const auto sentence = [&](std::string_view how_far) {
    return StreamRunnable::Held{fmt::format("{}: {}", owner_.name(), how_far)};
  };
  try {
    const DeviceSide::LastEpoch last = side_->last_epoch();
    if (last.is_over) return {};
    const auto missing = [&] {
      if (owner_.sides() == PARTITA_PREQUEST_RECV) return "not all that the sender marks in it has come";
      if (owner_.sides() != PARTITA_PREQUEST_SEND) return "some other rank has not come to it";
      return "not all of it has left, which kernels of this rank mark once the receiver has started it";
    };
    return sentence(fmt::format("kernels of this side are in epoch {} by now, and {}", last.epoch, missing()));
  } catch (const Error&) {
    return sentence("the GPU no longer tells how far");
  }
}

std::optional<Error> DeviceRequest::untold_mistake() const {
  // The kernels of one that has failed or was given up say no more than that they were released.
  if (!exists() || owner_.failed() || owner_.given_up() || !side_->has_news()) return {};
  try {
    check();
  } catch (const Error& mistake) {
    return mistake;
  }
  return {};
}

void DeviceRequest::watch_kernels(KernelFindings& findings) {
  if (owner_.failed()) return;
  const auto error = why_in_vain(findings);
  if (!error) return;
  fail_kernels(*error, findings.caller());
}

/// Why kernels wait in vain, if they do.
std::optional<Error> DeviceRequest::why_in_vain(KernelFindings& findings) {
  if (const Error* fault = findings.fault_of(owner_.place().device)) return *fault;
  std::optional<Error> why = owner_.why_peers_are_lost(findings);
  if (!why || !owner_.kernels_can_wait()) {
    looks_in_vain_ = 0;
    return {};
  }
  // What the peer had sent may still be on its way at the first look.
  if (++looks_in_vain_ < 2) return {};
  return why;
}

void DeviceRequest::fail_kernels(const Error& error, Mail::Caller caller) {
  owner_.fail_for_kernels(error, caller);
  side_->abort();
}

}  // namespace partita
