#include "queue/persistent.hpp"

#include <array>
#include <utility>

#include "core/current_error.hpp"
#include "partitioned/recv.hpp"
#include "partitioned/send.hpp"

namespace partita {
namespace {

const char* kind_of_send(SendMode mode) {
  static constexpr std::array<const char*, 3> names = {"persistent_send", "persistent_rsend", "persistent_ssend"};
  return names[static_cast<std::size_t>(mode)];
}

/// Where the program wants the engine to copy, kernels do not.
link::Driver driver_of(const RequestServices& services) {
  return services.settings.gpu_copy == GpuCopy::engine ? link::Driver::host : link::Driver::stream;
}

/// What streams move; the beginning of a sentence's clause.
constexpr const char* what_streams_move =
    "what streams move are messages between memory of GPUs that map each other, over link direct, and not where "
    "PARTITA_GPU_COPY is engine";

}  // namespace

PersistentRequest::PersistentRequest(const RequestServices& services, const char* kind,
                                     std::unique_ptr<Request> carried, SendMode mode)
    : Operation({.stream_runnable = this, .kernel_pollable = this}, carried->communicator()),
      services_(services),
      kind_(kind),
      carried_(std::move(carried)),
      mode_(mode) {}

std::unique_ptr<PersistentRequest> PersistentRequest::send(const RequestServices& services, RequestArguments arguments,
                                                           SendMode mode) {
  arguments.space = Space::queue;
  arguments.driver = driver_of(services);
  arguments.synchronous = mode == SendMode::synchronous;
  auto carried = std::make_unique<SendRequest>(services, std::move(arguments));
  return std::unique_ptr<PersistentRequest>(
      new PersistentRequest(services, kind_of_send(mode), std::move(carried), mode));
}

std::unique_ptr<PersistentRequest> PersistentRequest::receive(const RequestServices& services,
                                                              RequestArguments arguments) {
  arguments.space = Space::queue;
  arguments.driver = driver_of(services);
  auto carried = std::make_unique<RecvRequest>(services, std::move(arguments));
  return std::unique_ptr<PersistentRequest>(
      new PersistentRequest(services, "persistent_recv", std::move(carried), SendMode::standard));
}

void PersistentRequest::begin_match() {
  if (seeks_) return;
  carried_->seek_peers();
  seeks_ = true;
}

void PersistentRequest::match_is_seen() {
  if (by_stream() != nullptr || carried_->message().null_peer()) return;
  const std::lock_guard lock(stream_side_mutex_);
  Half& half = *carried_->halves().front();
  if (stream_side_ != nullptr || !half.matched()) return;
  const auto route = carried_->stream_route();
  if (!route) return;
  stream_side_ = std::make_unique<StreamSide>(services_, half, carried_->message(), *route, mode_ == SendMode::ready);
  by_stream_.store(stream_side_.get(), std::memory_order_release);
}

/// A message to nobody asks nothing of a stream, so that any stream will do.
std::string PersistentRequest::why_not_on(const memory::Stream& stream, bool captured) const {
  if (runs_on(stream, captured)) return {};
  if (by_stream() == nullptr) return what_streams_move;
  return fmt::format("the stream is of GPU {} and the buffer of GPU {}", stream.device(), by_stream()->device());
}

Partita_Completion PersistentRequest::completion() const {
  if (by_stream() != nullptr) return by_stream()->completion();
  if (!carried_->message().null_peer()) {
    throw Error(ErrorClass::request,
                "kernels cannot ask whether it is complete, as hosts move it; behind Enqueue_wait in the stream they "
                "find it so: {}. {}",
                what_streams_move, explain());
  }
  Partita_Completion to_nobody{};
  to_nobody.origin = PARTITA_PREQUEST_NOBODY;
  return to_nobody;
}

void PersistentRequest::start() {
  if (!matched()) {
    throw Error(ErrorClass::request, "the request is not matched; expected is one that Match has matched. {}",
                explain());
  }
  match_is_seen();
  if (by_stream() != nullptr) return by_stream()->start();
  carried_->start();
  Markable* const markable = carried_->facets().markable;
  if (markable == nullptr) return;
  try {
    markable->mark(0);
  } catch (const std::exception&) {
    carried_->fail(current_error());  // the epoch is open: its wait tells
  }
}

/// Streams move no message before its receive is started.
bool PersistentRequest::done() {
  if (by_stream() != nullptr) return by_stream()->done();
  return carried_->done() && (mode_ != SendMode::synchronous || carried_->prepared());
}

bool PersistentRequest::prepared() {
  if (!seeks_) throw Error(ErrorClass::request, "{}; expected is one that Match has matched", explain());
  return by_stream() != nullptr ? by_stream()->prepared() : carried_->prepared();
}

void PersistentRequest::abandon(const std::optional<Error>& cause) {
  by_stream() != nullptr ? by_stream()->give_up(cause) : carried_->abandon(cause);
}

void PersistentRequest::withdraw() {
  if (by_stream() != nullptr) by_stream()->take_over_epochs();
  carried_->withdraw();
  by_stream_.store(nullptr, std::memory_order_release);
  stream_side_.reset();
}

std::vector<InfoEntry> PersistentRequest::info() const {
  std::vector<InfoEntry> entries = carried_->info();
  entries.front().value = kind();
  if (by_stream() == nullptr) return entries;
  entries[1].value = active() ? "true" : "false";
  entries.push_back({"partita_moved_by", "stream"});
  return entries;
}

std::string PersistentRequest::explain() const {
  if (!seeks_) return "Nobody has called Match for the persistent request";
  return by_stream() == nullptr ? carried_->explain() : by_stream()->explain();
}

}  // namespace partita
