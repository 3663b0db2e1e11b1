#include "transfer/ordinals.hpp"

#include <algorithm>

namespace partita {
namespace {

constexpr std::size_t first_places = 4;

/// One number for both, its high bits as good as random: neighbouring tags stand far apart.
std::uint64_t hash(std::uint32_t whose, int tag) {
  std::uint64_t x = (std::uint64_t{whose} << 32) | static_cast<std::uint32_t>(tag);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// What `send` and `peer` are kept as.
std::uint32_t whose(bool send, int peer) {
  return 2 * static_cast<std::uint32_t>(peer) + (send ? 1 : 0);
}

}  // namespace

std::uint32_t Ordinals::draw(bool send, int peer, int tag) {
  // Seven places in eight are taken at most, so that a run of them stays short.
  if (8 * (used_ + 1) > 7 * places_.size()) grow();
  const std::uint32_t wanted = whose(send, peer);
  Place& place = find(wanted, tag);
  if (place.free()) {
    place = {wanted, tag, 0};
    ++used_;
  }
  return place.next++;
}

void Ordinals::give_back(bool send, int peer, int tag, std::uint32_t ordinal) {
  if (places_.empty()) return;
  Place& place = find(whose(send, peer), tag);
  if (!place.free() && place.next == ordinal + 1) place.next = ordinal;
}

/// Its place, or the free one where it would stand. There is a free one.
Ordinals::Place& Ordinals::find(std::uint32_t wanted, int tag) {
  const std::size_t count = places_.size();
  // The hash's high half as a fraction of all places.
  auto index = static_cast<std::size_t>((hash(wanted, tag) >> 32) * count >> 32);
  while (!places_[index].free() && (places_[index].whose != wanted || places_[index].tag != tag)) {
    if (++index == count) index = 0;
  }
  return places_[index];
}

/// By a half: twice as many places would stand empty more often than not.
void Ordinals::grow() {
  std::vector<Place> larger(std::max(first_places, places_.size() + places_.size() / 2));
  places_.swap(larger);
  for (const Place& place : larger) {
    if (!place.free()) find(place.whose, place.tag) = place;
  }
}

}  // namespace partita
