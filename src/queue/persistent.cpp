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

}  // namespace

PersistentRequest::PersistentRequest(const char* kind, std::unique_ptr<Request> carried, bool synchronous)
    : Operation({}, carried->communicator()), kind_(kind), carried_(std::move(carried)), synchronous_(synchronous) {}

std::unique_ptr<PersistentRequest> PersistentRequest::send(const RequestServices& services, RequestArguments arguments,
                                                           SendMode mode) {
  const bool synchronous = mode == SendMode::synchronous;
  arguments.space = Space::queue;
  arguments.synchronous = synchronous;
  auto carried = std::make_unique<SendRequest>(services, std::move(arguments));
  return std::unique_ptr<PersistentRequest>(new PersistentRequest(kind_of_send(mode), std::move(carried), synchronous));
}

std::unique_ptr<PersistentRequest> PersistentRequest::receive(const RequestServices& services,
                                                              RequestArguments arguments) {
  arguments.space = Space::queue;
  auto carried = std::make_unique<RecvRequest>(services, std::move(arguments));
  return std::unique_ptr<PersistentRequest>(new PersistentRequest("persistent_recv", std::move(carried), false));
}

void PersistentRequest::begin_match() {
  if (seeks_) return;
  carried_->seek_peers();
  seeks_ = true;
}

void PersistentRequest::start() {
  if (!matched()) {
    throw Error(ErrorClass::request, "the request is not matched; expected is one that Match has matched. {}",
                explain());
  }
  carried_->start();
  Markable* const markable = carried_->facets().markable;
  if (markable == nullptr) return;
  try {
    markable->mark(0);
  } catch (const std::exception&) {
    carried_->fail(current_error());  // the epoch is open: its wait tells
  }
}

bool PersistentRequest::done() {
  return carried_->done() && (!synchronous_ || carried_->prepared());
}

bool PersistentRequest::prepared() {
  if (!seeks_) throw Error(ErrorClass::request, "{}; expected is one that Match has matched", explain());
  return carried_->prepared();
}

std::vector<InfoEntry> PersistentRequest::info() const {
  std::vector<InfoEntry> entries = carried_->info();
  entries.front().value = kind();
  return entries;
}

std::string PersistentRequest::explain() const {
  return seeks_ ? carried_->explain() : "Nobody has called Match for the persistent request";
}

}  // namespace partita
