#include "two_sided/peer_move.hpp"

#include <algorithm>

namespace partita {
namespace {

/// A swap goes through memory of Partita's in pieces of this size.
constexpr std::int64_t swapped_at_once_bytes = std::int64_t{1} << 20;

}  // namespace

bool PeerMove::looks_at_parts(PeerBuffer& buffer, const void* address, MPI_Datatype type, const PeerPart* parts) {
  const PeerPart* const end = parts + ranks();
  const PeerPart* const first = std::find_if(parts, end, [](const PeerPart& part) { return part.count > 0; });
  return first == end || looks_at(buffer, address, type, first->first, first->count);
}

bool PeerMove::is_fit() {
  places_.resize(static_cast<std::size_t>(ranks()));
  if (!parts_.is_valid || !looks_at_parts(in_, parts_.in, parts_.in_type, parts_.sent) ||
      !looks_at_parts(out_, parts_.out, parts_.out_type, parts_.received))
    return false;
  const std::int64_t own_bytes = sent_bytes(rank());
  if (own_bytes != received_bytes(rank())) return false;
  if (own_bytes > 0 && sent(rank()) == received(rank())) return false;  // the MPI says that it may not
  shown_ = written();
  return are_mappable(shown_);
}

bool PeerMove::moves_enough() const {
  if (parts_.is_enough) return true;
  std::int64_t all_sent_bytes = 0;
  std::int64_t all_received_bytes = 0;
  for (int peer = 0; peer < ranks(); ++peer) {
    all_sent_bytes += sent_bytes(peer);
    all_received_bytes += received_bytes(peer);
  }
  return std::max(all_sent_bytes, all_received_bytes) >= parts_.from_bytes;
}

bool PeerMove::writes_to(int peer) const {
  if (peer == rank() || sent_bytes(peer) == 0) return false;
  const bool lower_moves = (peer + rank()) % 2 == 0;
  return !parts_.swaps || lower_moves == (rank() < peer);
}

bool PeerMove::is_written_by(int peer) const {
  if (peer == rank() || received_bytes(peer) == 0) return false;
  return !parts_.swaps || !writes_to(peer);
}

PeerCall::Shown PeerMove::written() const {
  Shown shown;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (!is_written_by(peer)) continue;
    std::byte* const begin = received(peer);
    shown.first = shown.first == nullptr ? begin : std::min(shown.first, begin);
    shown.end = std::max(shown.end, begin + received_bytes(peer));
  }
  return shown;
}

/// Offers each rank what it is expected to fill, as a part of one piece of memory that has all of these.
bool PeerMove::names_memory() {
  bool all_named = true;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const std::byte* const place = is_written_by(peer) ? received(peer) : nullptr;
    all_named = all_named && offers(Side::to_write, peer, shown_, place, received_bytes(peer));
  }
  return all_named;
}

bool PeerMove::maps_peers() {
  bool all_mapped = true;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    if (!offers_as_many(Side::to_write, peer, sent_bytes(peer))) all_mapped = false;
    if (!writes_to(peer)) continue;
    std::byte*& place = places_[static_cast<std::size_t>(peer)];
    place = map(Side::to_write, peer, in_.device);
    all_mapped &= place != nullptr;
  }
  return all_mapped;
}

/// Neighbours first, so that not all ranks write to the same one.
void PeerMove::ask_for_part(memory::Stream& stream, std::byte* scratch) {
  for (int distance = 1; distance <= ranks(); ++distance) {
    const int peer = (rank() + distance) % ranks();
    const auto size_bytes = static_cast<std::size_t>(sent_bytes(peer));
    if (peer == rank() && size_bytes > 0) {
      stream.copy(received(peer), sent(peer), size_bytes);
    } else if (writes_to(peer) && parts_.swaps) {
      swap_with(peer, stream, scratch);
    } else if (writes_to(peer)) {
      stream.copy(places_[static_cast<std::size_t>(peer)], sent(peer), size_bytes);
    }
  }
}

/// A piece after the other, each in the stream's order, so that the peer's is safe before it is written.
void PeerMove::swap_with(int peer, memory::Stream& stream, std::byte* scratch) const {
  const std::int64_t size_bytes = sent_bytes(peer);
  for (std::int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += swapped_at_once_bytes) {
    const auto piece_bytes = static_cast<std::size_t>(std::min(swapped_at_once_bytes, size_bytes - done_bytes));
    std::byte* const own = sent(peer) + done_bytes;
    std::byte* const theirs = places_[static_cast<std::size_t>(peer)] + done_bytes;
    stream.copy(scratch, theirs, piece_bytes);
    stream.copy(theirs, own, piece_bytes);
    stream.copy(own, scratch, piece_bytes);
  }
}

PeerCall::Needs PeerMove::needs() const {
  std::int64_t largest_bytes = 0;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (writes_to(peer) || peer == rank()) largest_bytes = std::max(largest_bytes, sent_bytes(peer));
  }
  if (largest_bytes == 0) return {};
  return {in_.device, GpuLane::Work::copies, parts_.swaps ? std::min(largest_bytes, swapped_at_once_bytes) : 0};
}

}  // namespace partita
