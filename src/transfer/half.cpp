#include "transfer/half.hpp"

#include <algorithm>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"

namespace partita {

Half::~Half() {
  if (host_copy_ != nullptr) {
    services_.host_blocks.free_block(host_copy_, static_cast<std::size_t>(shape().total_bytes()));
  }
}

std::vector<link::Endpoint> Half::endpoints() const {
  const std::int64_t total_bytes = shape().total_bytes();
  link::Endpoint own{peer(),        packed(),        total_bytes,       terms_.place.kind, terms_.place.device,
                     terms_.driver, terms_.in_place, terms_.synchronous};
  if (!in_gpu_memory()) {
    own.kind = services_.host_blocks.kind_of(own.data, static_cast<std::size_t>(total_bytes));
    own.held_partitions = held_partitions();
    return {own};
  }
  link::Endpoint staged{peer(), nullptr, total_bytes, memory::Kind::host_exported, -1, terms_.driver};
  staged.synchronous = terms_.synchronous;
  return {own, staged};
}

link::Endpoint Half::allocated(link::Endpoint endpoint) {
  if (!in_gpu_memory() || !memory::is_host(endpoint.kind)) return endpoint;
  if (host_copy_ == nullptr) {
    host_copy_ = services_.host_blocks.allocate_block(static_cast<std::size_t>(endpoint.size_bytes));
    // Page-locked, so that the GPU copies at full speed.
    services_.device_memory.device_pointer(terms_.place.device, host_copy_);
  }
  endpoint.data = host_copy_;
  return endpoint;
}

/// Where nothing went wrong before, all epochs that the peer had opened are complete.
bool Half::kernels_are_done() const {
  if (ending.has_failed() || failed() || given_up() || user_.kernels_may_use_peer()) return false;
  const std::lock_guard lock(streams_mutex_);
  return streams_ == nullptr || !streams_->may_use_peer();
}

void Half::set_streams(const Streams* streams) {
  const std::lock_guard lock(streams_mutex_);
  streams_ = streams;
}

std::optional<Stage> Half::stage(memory::Kind form) const {
  if (!in_gpu_memory() || !memory::is_host(form)) return {};
  return Stage{packed(), host_copy_, terms_.place.device};
}

std::byte* Half::allocate_packed_on_gpu() {
  const auto size_bytes = static_cast<std::size_t>(std::max<std::int64_t>(shape().total_bytes(), 1));
  return packed_on_gpu_.emplace(services_.device_memory, terms_.place.device, size_bytes).address();
}

void Half::take_match(const link::Plan& plan, std::string link_name, std::string link_reason) {
  plan_ = plan;
  link_name_ = std::move(link_name);
  link_reason_ = std::move(link_reason);
}

void Half::finish_match() {
  user_.before_match();
  if (active()) {
    open();
    user_.opened_epoch();
  }
  matched_.store(true, std::memory_order_release);
}

void Half::fail(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
}

void Half::fail_on_both_sides(const char* what, const Error& error, Mail::Caller caller) {
  insist([&] { fail(error); });
  // Before the match the program's thread may open an epoch meanwhile, and none has completed.
  say(!matched() ? next(services_.settings.first_epoch) : active() ? epoch() : next(epoch()), what, error, caller);
}

Error Half::fail_with_current(const char* what) {
  Error error = current_error();
  fail_on_both_sides(what, error);
  return error;
}

void Half::throw_if_failed() const {
  if (!failed()) return;
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) return;
  told_.store(true, std::memory_order_relaxed);
  throw Error(*failure_);
}

bool Half::purposes_differ() const {
  if (!failed()) return false;
  const std::lock_guard lock(failure_mutex_);
  return failure_ && failure_->error_class() == ErrorClass::calls_differ;
}

void Half::throw_if_given_up() const {
  if (!given_up()) return;
  throw Error(
      ErrorClass::request,
      "an earlier epoch of the request ended with an error, so that the epochs of its two sides no longer agree; "
      "free it at both ends and make it anew. {}",
      explain());
}

void Half::say(Epoch first_lost, const char* what, const Error& error, Mail::Caller caller) {
  insist([&] {
    const Origin* const passed_on = error.origin();
    ending.say(
        {first_lost, error.error_class(),
         passed_on != nullptr ? *passed_on : Origin{services_.rank, fmt::format("{}: {}", what, error.sentence())}});
  });
  send_last_word(caller);
}

void Half::send_last_word(Mail::Caller caller) {
  const std::uint64_t to = peer_id;
  if (to == 0) return;
  const auto word = insist([&] { return ending.take_unsent(); });
  if (!word) return;
  insist([&] {
    services_.mail.post(
        peer(), write(Failure{to, word->first_lost, word->origin.rank, {word->error_class, word->origin.cause}}),
        caller);
  });
}

Error Half::why_lost(const std::string& state) const {
  const LastWord& word = ending.heard_word();
  const char* const other_side = side() == Side::send ? "receiver" : "sender";
  if (word.origin.cause.empty()) {
    return Error(ErrorClass::request, "the {} has freed its request (rank {}): epoch {} cannot complete. {}",
                 other_side, peer(), word.first_lost, state);
  }
  const auto& [rank, cause] = word.origin;
  if (rank < 0) return Error(word.error_class, "{}", cause);
  if (rank != peer()) return Error(word.error_class, "rank {} {}", rank, cause).began_at(word.origin);
  return Error(word.error_class, "the {}, rank {}, {}", other_side, rank, cause).began_at(word.origin);
}

}  // namespace partita
