#include "queue/stream_side.hpp"

#include <cstddef>

namespace partita {
namespace {

Epoch load(const Epoch& word) {
  return std::atomic_ref(const_cast<Epoch&>(word)).load(std::memory_order_acquire);
}

}  // namespace

StreamSide::StreamSide(const RequestServices& services, Half& half, const Message& message_of_program,
                       const link::StreamRoute& route, bool ready)
    : services_(services),
      half_(half),
      message_of_program_(message_of_program),
      ready_(ready),
      bytes_(half.plan().total_bytes()),
      grids_(bytes_),
      host_block_(services.host_memory, sizeof(memory::MessageReport)),
      message_block_(services.device_memory, half.terms().place.device, sizeof(memory::StreamMessage)),
      route_(route),
      newest_(half.epoch()) {
  memory::StreamMessage message{};
  message.state.epoch = message.state.moves = message.state.over = half.epoch();
  message.ends.sender = route.sender;
  message.ends.receiver = route.receiver;
  message.ends.to = reinterpret_cast<unsigned char*>(route.to);
  message.ends.from = reinterpret_cast<const unsigned char*>(route.from);
  message.ends.size_bytes = bytes_;
  message.ends.report = reinterpret_cast<memory::MessageReport*>(
      services.device_memory.device_pointer(device(), reinterpret_cast<std::byte*>(&report())));
  message.ends.sends = sends() ? 1 : 0;
  message.ends.is_ready = ready ? 1 : 0;
  services.device_memory.copy(message_block_.address(), &message, sizeof message);
  if (half.terms().packed_apart) layout_.emplace(services.device_memory, device(), message_of_program.layout());
  // The sender's word begins so. Nobody stores this one before a start of this side.
  if (!sends()) services.device_memory.copy(&route.receiver->pushed, &message.state.epoch, sizeof(Epoch));
  half.set_streams(this);
}

StreamSide::~StreamSide() {
  half_.set_streams(nullptr);
  if (is_watched_) services_.device_watch.remove(*this);
  if (half_.failed() || half_.given_up()) release();
  drain_own_stream();
  try {
    if (release_queue_ != nullptr) release_queue_->drain();
  } catch (const Error&) {
    // The GPU no longer works: nothing is under way.
  }
}

/// Until no step of the host's moves or unpacks any more.
void StreamSide::drain_own_stream() noexcept {
  try {
    if (own_stream_ != nullptr) own_stream_->drain();
  } catch (const Error&) {
    // The GPU no longer works: nothing is under way.
  }
}

void StreamSide::add_start(bool captured, memory::MessageRun& starts) {
  throw_if_faulty();
  half_.throw_if_given_up();
  const Epoch epoch = next(newest_.load(std::memory_order_relaxed));
  if (half_.ending.loses(epoch)) throw half_.why_lost(explain());
  if (!is_watched_) services_.device_watch.add(*this);
  is_watched_ = true;
  if (layout_ && sends())
    starts.pack_before(layout_->packing(message_of_program_.partition(0), bytes_, half_.packed()));
  starts.add(message(), grids_, sends());
  bool is_first = false;  // from here on kernels may wait
  if (captured) {
    is_first = !is_captured_.exchange(true);
  } else {
    newest_.store(epoch, std::memory_order_relaxed);
    is_first = under_way_.fetch_add(1) == 0;
  }
  if (is_first) services_.device_watch.look_again();
}

/// A ready send has pushed when its start is over.
void StreamSide::add_wait(memory::MessageRun& waits) {
  if (!ready_) waits.add(message(), grids_, true);
  if (const auto unpacking = this->unpacking()) waits.unpack_behind(*unpacking);
}

std::optional<memory::PackElements> StreamSide::unpacking() const {
  if (!layout_ || sends()) return {};
  return layout_->unpacking(half_.packed(), message_of_program_.partition(0), bytes_);
}

void StreamSide::pass_wait() {
  under_way_.fetch_sub(1);
  throw_if_faulty();
}

void StreamSide::close() {
  if (active_.exchange(false, std::memory_order_acq_rel)) under_way_.fetch_sub(1);
}

Partita_Completion StreamSide::completion() const {
  if (layout_ && !sends()) {
    throw Error(ErrorClass::request,
                "kernels cannot ask whether it is complete, since its datatype has gaps, and what has come is unpacked "
                "behind Enqueue_wait; expected is a receive whose datatype has none. {}",
                explain());
  }
  Partita_Completion made{};
  made.word = sends() ? &route_.sender->pulled : &route_.receiver->pushed;
  made.epoch = &message()->state.epoch;
  made.message = message();
  made.origin = PARTITA_PREQUEST_MADE;
  return made;
}

bool StreamSide::prepared() const {
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  throw_if_faulty();
  if (!sends()) return true;
  const Words now = read();
  return now.peer_started == now.state.epoch || now.state.over == now.state.epoch;
}

/// The epoch in which streams have come to a fault, or that they have started last.
Epoch StreamSide::epoch_on_gpu() const noexcept {
  try {
    return read().state.epoch;
  } catch (const std::exception&) {
    return half_.epoch();  // the GPU works no longer: an older epoch does as well for the last word
  }
}

/// The newest epoch that streams were asked for; where graphs ask, too, the newest that they have started. Throws Error
/// where the GPU works no longer.
Epoch StreamSide::newest_epoch() const {
  if (!is_captured_.load(std::memory_order_relaxed)) return newest_.load(std::memory_order_relaxed);
  return read().state.epoch;
}

memory::MessageFault StreamSide::fault() const {
  return static_cast<memory::MessageFault>(load(report().fault));
}

bool StreamSide::has_news() const {
  return !is_told_.load(std::memory_order_relaxed) && !half_.given_up() && fault() != memory::MessageFault::none;
}

void StreamSide::throw_if_faulty() const {
  half_.throw_if_failed();
  const memory::MessageFault found = fault();
  if (found == memory::MessageFault::none) return;
  is_told_.store(true, std::memory_order_relaxed);
  if (found == memory::MessageFault::too_late) {
    throw Error(ErrorClass::other, "the wait took longer than {} s (PARTITA_TIMEOUT). {}", services_.settings.timeout_s,
                explain());
  }
  if (half_.ending.heard()) throw half_.why_lost(explain());
  throw Error(ErrorClass::other, "the request was given up while a stream waited for it. {}", explain());
}

memory::Stream& StreamSide::own_stream() {
  if (own_stream_ == nullptr) own_stream_ = services_.device_memory.make_stream(device());
  return *own_stream_;
}

/// One of the host's, behind `before`; a report tells when it is done.
void StreamSide::run_step(memory::MessageStep step, const memory::PackElements* before) {
  const partita_u32 report = report_ == ~partita_u32{0} ? 1 : report_ + 1;
  const Epoch newest = newest_.load(std::memory_order_relaxed);
  memory::MessageRun run(step, services_.settings.timeout_s, report);
  if (before != nullptr) run.pack_before(*before);
  if (step == memory::MessageStep::start) {
    add_start(false, run);
  } else {
    run.add(message(), grids_, true);
  }
  try {
    run.launch(own_stream());
  } catch (const Error&) {
    if (step == memory::MessageStep::start) {
      newest_.store(newest, std::memory_order_relaxed);
      under_way_.fetch_sub(1);
    }
    throw;
  }
  report_ = report;
}

void StreamSide::start() {
  run_step(memory::MessageStep::start);
  is_unpacked_ = false;
  active_.store(true, std::memory_order_release);
}

bool StreamSide::done() {
  throw_if_faulty();
  const bool lost = half_.ending.loses(newest_.load(std::memory_order_relaxed));
  if (load(report().number) != report_) {
    own_stream().idle();  // throws where the GPU works no longer
    return false;
  }
  if (report().over == report().epoch) {
    const auto unpacking = this->unpacking();
    if (!unpacking || is_unpacked_) return true;
    run_step(memory::MessageStep::look, &*unpacking);  // whose report comes behind that
    is_unpacked_ = true;
    return false;
  }
  if (lost) throw half_.why_lost(explain());
  run_step(memory::MessageStep::look);  // only the GPU sees how far the epoch is
  return false;
}

void StreamSide::give_up(const std::optional<Error>& cause) {
  if (half_.given_up()) return;
  half_.give_up();
  release();
  drain_own_stream();  // the buffer is the program's again
  half_.set_epoch(epoch_on_gpu());
  under_way_.store(0);
  if (cause) half_.say(half_.epoch(), "gave its request up", *cause);
  close();
}

void StreamSide::take_over_epochs() noexcept {
  if (is_watched_) services_.device_watch.remove(*this);
  is_watched_ = false;
  try {
    const Words last = read();
    half_.set_epoch(last.state.epoch);
    if (last.is_over() || half_.given_up() || half_.failed()) return;
    half_.give_up();
    half_.say(half_.epoch(), "gave its request up",
              Error(ErrorClass::request, "it was freed before streams had moved the message of epoch {}. {}",
                    half_.epoch(), message_of_program_.name()));
  } catch (const std::exception&) {
    // The GPU works no longer: an older epoch does as well for the last word.
  }
}

/// A receiver that has freed its request has told of each start of its own whose message did not come, so that the peer
/// of the others starts no more: nothing moves but in an epoch that is open here. A ready send asks for no start.
bool StreamSide::may_use_peer() const {
  if (ready_ || under_way_.load() > 0) return true;
  try {
    return !read().is_over();
  } catch (const std::exception&) {
    return true;  // the GPU works no longer
  }
}

/// Kernels that wait go on, for good. Any thread.
void StreamSide::release() noexcept {
  try {
    const std::lock_guard lock(release_mutex_);
    if (release_queue_ != nullptr) return;
    release_queue_ = services_.device_memory.make_copy_queue(device());
    release_queue_->write(&message()->state.released, 1);
  } catch (const Error&) {
    // The GPU works no longer, and so do its kernels.
  }
}

void StreamSide::watch_kernels(KernelFindings& findings) {
  std::optional<Error> why;
  if (!half_.failed()) {
    why = why_in_vain(findings);
    if (!why) return;
    half_.set_epoch(epoch_on_gpu());
    half_.fail_on_both_sides("failed", *why, findings.caller());
  }
  release();
}

/// Why streams wait in vain, if they do. What the peer had done before it ended they see first.
std::optional<Error> StreamSide::why_in_vain(KernelFindings& findings) {
  if (const Error* fault = findings.fault_of(device())) return *fault;
  std::optional<Error> why;
  if (half_.ending.heard()) {
    try {
      if (half_.ending.loses(newest_epoch())) why = half_.why_lost(explain());
    } catch (const Error& error) {
      why = error;
    }
  } else {
    why = findings.why_ended(half_.peer(), message_of_program_.name());
  }
  looks_in_vain_ = why ? looks_in_vain_ + 1 : 0;
  return looks_in_vain_ < 2 ? std::nullopt : why;
}

StreamSide::Words StreamSide::read() const {
  auto& memory = services_.device_memory;
  Words read{};
  memory.copy(&read.state, &message()->state, sizeof read.state);
  if (sends()) {
    memory::SenderWords words{};
    memory.copy(&words, route_.sender, sizeof words);
    read.peer_started = words.started;
    read.peer_moved = words.pulled;
  } else {
    memory::ReceiverWords words{};
    memory.copy(&words, route_.receiver, sizeof words);
    read.peer_moved = words.pushed;
    read.offered = words.offered;
  }
  return read;
}

std::string StreamSide::sentence(const std::string& how_far) const {
  return fmt::format("{}: link {}, moved by streams; {}", message_of_program_.name(), half_.link_name(), how_far);
}

/// The epoch of `now` is not over.
std::string StreamSide::explain_open(const Words& now) const {
  const Epoch epoch = now.state.epoch;
  const bool peer_has_started = (sends() ? now.peer_started : now.offered) == epoch;
  return sentence(fmt::format("this side has started epoch {}, the {} has {}started it", epoch,
                              sends() ? "receiver" : "sender", peer_has_started ? "" : "not "));
}

std::string StreamSide::explain() const {
  try {
    const Words now = read();
    if (!now.is_over()) return explain_open(now);
    return sentence(fmt::format("epoch {} is over, and no later one has begun", now.state.epoch));
  } catch (const Error&) {
    return sentence("the GPU no longer tells how far");
  }
}

/// Graphs ask for starts that nobody counts.
std::optional<StreamRunnable::Held> StreamSide::held() const {
  try {
    const Words now = read();
    if (now.is_over()) return {};
    StreamRunnable::Held held{explain_open(now)};
    if (!is_captured_.load(std::memory_order_relaxed)) {
      held.starts_to_come = newest_.load(std::memory_order_relaxed) - now.state.epoch;
    }
    return held;
  } catch (const Error&) {
    return StreamRunnable::Held{sentence("the GPU no longer tells how far")};
  }
}

}  // namespace partita
