#include "two_sided/peer_reduce.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "memory/grid.hpp"

namespace partita {
namespace {

/// A result that has no place on this rank is reduced in pieces of this size.
constexpr std::int64_t reduced_at_once_bytes = std::int64_t{1} << 20;

bool is_aligned(const std::byte* address, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(bytes) == 0;
}

}  // namespace

bool PeerReduce::gets_mine(int rank) const {
  return shares_.to == PeerShares::To::all || (shares_.to == PeerShares::To::root && rank == shares_.root);
}

bool PeerReduce::gets_theirs() const {
  return gets_mine(rank());
}

bool PeerReduce::is_fit() {
  read_.resize(static_cast<std::size_t>(ranks()));
  written_.resize(static_cast<std::size_t>(ranks()));
  if (!shares_.is_valid) return false;
  const bool has_result = gets_theirs() || shares_.to == PeerShares::To::owner;
  if (shares_.to == PeerShares::To::owner && is_in_place()) return refuse("in place a result lies on what others read");
  std::int64_t count = 0;
  for (int peer = 0; peer < ranks(); ++peer) count += shares_.shares[peer].count;
  if (count == 0) return true;
  const std::int64_t result_count = gets_theirs() ? count : shares_.shares[rank()].count;
  if (!looks_at(in_, shares_.in, shares_.type, 0, count)) return false;
  if (has_result && result_count > 0 && !looks_at(out_, shares_.out, shares_.type, 0, result_count)) return false;
  try {
    reduction_ = collective::gpu_reduction({shares_.op, shares_.type, collective::SmallFloat::none});
  } catch (const Error& error) {
    return refuse(error.sentence());
  }
  if (out_.device >= 0 && out_.device != in_.device) return refuse("its buffers lie on two GPUs");
  if (!is_aligned(in_.at(0), reduction_.element_bytes) || !is_aligned(out_.at(0), reduction_.element_bytes))
    return refuse("its elements are not aligned");
  shown_in_ = {in_.at(0), in_.at(0) + in_.bytes(count), {}};
  if (gets_theirs()) shown_out_ = {out_.at(0), out_.at(0) + out_.bytes(count), {}};
  return are_mappable(shown_in_) && are_mappable(shown_out_);
}

bool PeerReduce::names_memory() {
  bool all_named = true;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const std::int64_t bytes = share_bytes(peer);
    const std::int64_t first = shares_.shares[peer].first;
    const bool is_written = gets_theirs() && bytes > 0;
    all_named = all_named && offers(Side::to_read, peer, shown_in_, bytes > 0 ? in_.at(first) : nullptr, bytes) &&
                offers(Side::to_write, peer, shown_out_, is_written ? out_.at(first) : nullptr, is_written ? bytes : 0);
  }
  return all_named;
}

bool PeerReduce::maps_peers() {
  const std::int64_t bytes = share_bytes(rank());
  bool all_mapped = true;
  const auto maps = [&](Side side, int peer, std::byte*& place) {
    place = map(side, peer, in_.device);
    all_mapped &= place != nullptr;
  };
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    all_mapped &= offers_as_many(Side::to_read, peer, bytes);
    all_mapped &= offers_as_many(Side::to_write, peer, gets_mine(peer) ? bytes : 0);
    if (bytes == 0) continue;
    maps(Side::to_read, peer, read_[static_cast<std::size_t>(peer)]);
    if (gets_mine(peer)) maps(Side::to_write, peer, written_[static_cast<std::size_t>(peer)]);
  }
  return all_mapped;
}

std::byte* PeerReduce::result() const {
  if (shares_.to == PeerShares::To::owner) return out_.at(0);
  return gets_theirs() ? out_.at(shares_.shares[rank()].first) : nullptr;
}

void PeerReduce::ask_for_piece(memory::Stream& stream, std::byte* to, std::int64_t done_bytes,
                               std::int64_t piece_bytes) {
  const std::byte* const own = in_.at(shares_.shares[rank()].first) + done_bytes;
  if (to != own) stream.copy(to, own, static_cast<std::size_t>(piece_bytes));
  for (int distance = 1; distance < ranks(); ++distance) {
    const int peer = (rank() + distance) % ranks();
    memory::ReduceElements arguments;
    arguments.to = to;
    arguments.from = read_[static_cast<std::size_t>(peer)] + done_bytes;
    arguments.count = static_cast<std::uint64_t>(piece_bytes / reduction_.element_bytes);
    arguments.element = reduction_.element;
    arguments.by = reduction_.by;
    stream.launch(memory::grid_for(piece_bytes), arguments);
  }
  for (std::byte* const place : written_) {
    if (place != nullptr) stream.copy(place + done_bytes, to, static_cast<std::size_t>(piece_bytes));
  }
}

PeerCall::Needs PeerReduce::needs() const {
  const std::int64_t bytes = share_bytes(rank());
  if (bytes == 0) return {};
  return {in_.device, GpuLane::Work::kernels, result() == nullptr ? std::min(bytes, reduced_at_once_bytes) : 0};
}

void PeerReduce::ask_for_part(memory::Stream& stream, std::byte* scratch) {
  const std::int64_t bytes = share_bytes(rank());
  const std::int64_t at_once_bytes = scratch == nullptr ? bytes : std::min(bytes, reduced_at_once_bytes);
  for (std::int64_t done_bytes = 0; done_bytes < bytes; done_bytes += at_once_bytes) {
    ask_for_piece(stream, scratch == nullptr ? result() : scratch, done_bytes,
                  std::min(at_once_bytes, bytes - done_bytes));
  }
}

}  // namespace partita
