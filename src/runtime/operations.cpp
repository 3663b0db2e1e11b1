#include "runtime/operations.hpp"

#include <algorithm>
#include <chrono>

#include "core/current_error.hpp"

namespace partita {
namespace {

/// Whether nothing of `request` is left to be waited for; otherwise says in `why` what is.
bool is_complete(Request& request, std::string& why) {
  if (!request.open()) return true;
  try {
    if (request.done()) return true;
    why = request.explain();
  } catch (...) {
    why = current_error().sentence();
  }
  return false;
}

}  // namespace

void Operations::add(std::unique_ptr<Request> request) {
  Request& added = *request;
  {
    const std::lock_guard lock(mutex_);
    live_.emplace(&added, std::move(request));
  }
  try {
    added.seek_peer();
  } catch (...) {
    take(added);
    throw;
  }
}

std::shared_ptr<Request> Operations::take(Request& request) {
  const std::lock_guard lock(mutex_);
  return std::move(live_.extract(&request).mapped());
}

void Operations::free(Request& request) {
  request.withdraw();
  matcher_.free(std::shared_ptr<Half>(take(request), &request.half()));
}

Request& Operations::request_with(const Partita_Prequest& view) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, request] : live_) {
    if (request->has_device_side(view)) return *request;
  }
  throw Error(ErrorClass::arg, "argument prequest is of no request; it was freed already, or never made");
}

/// As the program has made them.
std::vector<Request*> Operations::in_order() const {
  const std::lock_guard lock(mutex_);
  std::vector<Request*> live;
  live.reserve(live_.size());
  for (const auto& [address, request] : live_) live.push_back(request.get());
  std::ranges::sort(live, {}, [](const Request* request) { return request->half().id; });
  return live;
}

Operations::Leftovers Operations::free_all() {
  Leftovers found;
  const std::vector<Request*> live = in_order();
  found.live = live.size();
  // What was marked may be on its way still, over a link that moves only while somebody looks.
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  for (Request* request : live) {
    std::string why;
    bool complete = is_complete(*request, why);
    while (!complete && std::chrono::steady_clock::now() < give_up) {
      progress_.poll();
      complete = is_complete(*request, why);
    }
    if (!complete && found.incomplete++ == 0) found.explanation = why;
  }
  const auto exclusive = progress_.exclusive();
  for (Request* request : live) {
    request->abandon();
    free(*request);
  }
  return found;
}

}  // namespace partita
