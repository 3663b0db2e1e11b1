#include "collective/schedule.hpp"

#include <utility>

#include "core/error.hpp"

namespace partita::collective {

Region Writer::slot(std::int64_t bytes) {
  schedule_.slot_bytes.push_back(bytes);
  return {Buffer::slots, static_cast<int>(schedule_.slot_bytes.size()) - 1, 0, bytes};
}

int Writer::mark() {
  if (mark_ == nothing) mark_ = add({.deed = Deed::mark}, {});
  return mark_;
}

int Writer::send(int peer, Region from, const After& after) {
  Action send{.deed = Deed::send, .peer = peer, .from = from};
  return send.is_empty() ? add_empty(std::move(send)) : add(std::move(send), after);
}

int Writer::receive(int peer, Region to) {
  Action receive{.deed = Deed::receive, .peer = peer, .to = to};
  return receive.is_empty() ? add_empty(std::move(receive)) : add(std::move(receive), {});
}

int Writer::copy(Region from, Region to, const After& after) {
  if (from.bytes != to.bytes) {
    throw Error(ErrorClass::truncate,
                "a slice that this rank sends to itself has {} bytes, and its place in the receive buffer {}; expected "
                "are equal sizes",
                from.bytes, to.bytes);
  }
  return from.bytes == 0 ? nothing : add({.deed = Deed::copy, .from = from, .to = to}, after);
}

int Writer::reduce(Region from, Region to, const After& after) {
  return from.bytes == 0 ? nothing : add({.deed = Deed::reduce, .from = from, .to = to}, after);
}

int Writer::add(Action action, const After& after) {
  for (const int place : after) {
    if (place != nothing) action.after.push_back(place);
  }
  schedule_.actions.push_back(std::move(action));
  return static_cast<int>(schedule_.actions.size()) - 1;
}

int Writer::add_empty(Action action) {
  schedule_.actions.push_back(std::move(action));
  return nothing;
}

}  // namespace partita::collective
