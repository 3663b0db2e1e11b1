#include "queue/matching.hpp"

#include <algorithm>

#include "core/current_error.hpp"

namespace partita {

Error not_persistent(const std::string& which) {
  return Error(ErrorClass::request, "{} is that of an Imatch; expected is a persistent one", which);
}

bool has_matched(Operation& operation) {
  try {
    if (!operation.matched()) return false;
    operation.match_is_seen();
    return true;
  } catch (const std::exception&) {
    if (!operation.active()) operation.abandon(current_error());
    throw;
  }
}

Matching::Matching(std::vector<Operation*> awaited, std::shared_ptr<Communicator> communicator)
    : Operation({}, std::move(communicator)), awaited_(std::move(awaited)) {
  for (Operation* const each : awaited_) each->queue_use().count_awaited(1);
}

void Matching::let_go() {
  for (Operation* const each : awaited_) each->queue_use().count_awaited(-1);
  awaited_.clear();
  asked_ = nullptr;
  active_ = false;
}

void Matching::seek_peers() {
  for (Operation* const each : awaited_) each->begin_match();
}

void Matching::start() {
  throw not_persistent("the request");
}

bool Matching::prepared() {
  throw not_persistent("the request");
}

bool Matching::done() {
  if (failure_) throw Error(*failure_);
  const auto unmatched = std::ranges::find_if(awaited_, [](Operation* each) { return !has_matched(*each); });
  asked_ = unmatched == awaited_.end() ? nullptr : *unmatched;
  return asked_ == nullptr;
}

std::vector<InfoEntry> Matching::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

std::string Matching::explain() const {
  return asked_ == nullptr ? "All requests of the Imatch are matched" : asked_->explain();
}

}  // namespace partita
