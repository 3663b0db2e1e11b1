#include "two_sided/peer_call.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/current_error.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

/// Of what one copy of a swap takes through memory of Partita's.
constexpr std::int64_t swapped_at_once_bytes = std::int64_t{1} << 20;

/// An MPI refuses to send an element of a datatype that is not committed. Nothing is read from the buffer of a send to
/// MPI_PROC_NULL.
bool is_committed(const World& world, MPI_Datatype type) {
  static const char unread = 0;
  return native::Send(&unread, 1, type, MPI_PROC_NULL, 0, world.control()) == MPI_SUCCESS;
}

}  // namespace

PeerCall::PeerCall(const PeerServices& services, PeerMappings& mappings, PeerBoard& board,
                   const std::vector<int>& world_ranks, const PeerParts& parts)
    : services_(services),
      mappings_(mappings),
      board_(board),
      world_ranks_(world_ranks),
      parts_(parts),
      number_(board.begin()) {}

bool PeerCall::move() {
  if (const int rank = board_.who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
  if (board_.has_answered()) return false;
  const bool all_know_bytes = parts_.is_valid && parts_.bytes != PeerParts::unknown_bytes;
  if (all_know_bytes && parts_.bytes < *services_.from_bytes) return false;
  const bool fit = is_fit();
  if (!all_agree(Question::wants, fit, fit && (all_know_bytes || most_bytes() >= *services_.from_bytes))) return false;
  if (!all_agree(Question::named, name_buffer())) return false;
  if (!all_agree(Question::mapped, map_peers())) return false;
  end();
  return true;
}

bool PeerCall::refuse(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
  return false;
}

std::byte* PeerCall::Buffer::at(std::int64_t element) const {
  return shifted(address, element * layout.extent_bytes() + layout.first_byte());
}

/// Whether the elements lie in GPU memory, without gaps; or there are none.
bool PeerCall::looks_at(Buffer& buffer, const void* address, MPI_Datatype type, const PeerPart* parts) {
  const PeerPart* const end = parts + board_.ranks();
  const PeerPart* const first = std::find_if(parts, end, [](const PeerPart& part) { return part.count > 0; });
  if (first == end) return true;
  const RequestServices& requests = services_.requests;
  if (!requests.device_memory.in_use() || !is_committed(requests.world, type)) return false;
  buffer.layout = Layout::of(type);
  if (buffer.layout.size_bytes() == 0) return true;
  buffer.address = static_cast<std::byte*>(const_cast<void*>(address));
  if (!buffer.layout.contiguous()) return refuse("its datatype has gaps");
  const memory::Place place =
      requests.device_memory.place_of(buffer.at(first->first), static_cast<std::size_t>(buffer.bytes(*first)));
  buffer.device = place.device;
  return place.kind == memory::Kind::device;
}

bool PeerCall::is_fit() {
  if (!parts_.is_valid || !looks_at(in_, parts_.in, parts_.in_type, parts_.sent) ||
      !looks_at(out_, parts_.out, parts_.out_type, parts_.received))
    return false;
  const int self = board_.rank();
  const bool is_own = in_.bytes(sent(self)) > 0;
  if (in_.bytes(sent(self)) != out_.bytes(received(self))) return false;
  if (is_own && in_.at(sent(self).first) == out_.at(received(self).first))
    return false;  // the MPI says that it may not
  if (out_.device < 0) return true;
  std::string why = services_.requests.device_memory.why_not_exported(out_.address);
  return why.empty() || refuse(std::move(why));
}

/// Of the larger buffer.
std::int64_t PeerCall::most_bytes() const {
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    sent_bytes += in_.bytes(sent(peer));
    received_bytes += out_.bytes(received(peer));
  }
  return std::max(sent_bytes, received_bytes);
}

bool PeerCall::all_agree(Question question, bool yes, bool much) {
  board_.answer(number_, question, {yes, much});
  if (!yes) return false;
  const PeerBoard::Answers answers = await_answers(question);
  return answers.outcome == PeerBoard::Outcome::all_yes && (question != Question::wants || answers.any_much);
}

/// Who gives the call up says so: the others wait for this rank in turn.
PeerBoard::Answers PeerCall::await_answers(Question question) {
  asked_ = question;
  PeerBoard::Answers answers = board_.answers(number_, question);
  if (answers.outcome != PeerBoard::Outcome::open) return answers;
  awaited_ = answers.rank;
  try {
    services_.wait_until(*this, [&] {
      answers = board_.answers(number_, question);
      if (answers.outcome != PeerBoard::Outcome::open) return true;
      awaited_ = answers.rank;
      if (const int rank = board_.who_gave_up(); rank >= 0) {
        throw Error(ErrorClass::other, "rank {} of the communicator has given up the call, after an error", rank);
      }
      return false;
    });
  } catch (const std::exception&) {
    board_.give_up();
    throw;
  }
  return answers;
}

std::string PeerCall::explain() const {
  const int peer = world_ranks_[static_cast<std::size_t>(awaited_)];
  switch (asked_) {
    case Question::wants:
      return fmt::format("{} on GPU memory waits for rank {} to enter it", parts_.call, peer);
    case Question::named:
      return fmt::format("{} on GPU memory waits for rank {} to name its memory", parts_.call, peer);
    case Question::mapped:
      return fmt::format("{} on GPU memory waits for rank {} to map the memory of its peers", parts_.call, peer);
    case Question::ended:
      break;
  }
  return fmt::format("{} on GPU memory waits for the copies of rank {}", parts_.call, peer);
}

int PeerCall::waits_for() const {
  return world_ranks_[static_cast<std::size_t>(awaited_)];
}

bool PeerCall::writes_to(int peer) const {
  const int self = board_.rank();
  if (peer == self || in_.bytes(sent(peer)) == 0) return false;
  const bool lower_moves = (peer + self) % 2 == 0;
  return !parts_.swaps || lower_moves == (self < peer);
}

bool PeerCall::is_written_by(int peer) const {
  const int self = board_.rank();
  if (peer == self || out_.bytes(received(peer)) == 0) return false;
  return !parts_.swaps || !writes_to(peer);
}

/// Offers each rank what it expects from it, as the part of one piece of memory that holds all of these.
bool PeerCall::name_buffer() {
  std::byte* first = nullptr;
  std::byte* end = nullptr;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    if (!is_written_by(peer)) continue;
    std::byte* const begin = out_.at(received(peer).first);
    first = first == nullptr ? begin : std::min(first, begin);
    end = std::max(end, begin + out_.bytes(received(peer)));
  }
  memory::DevicePiece last;
  bool all_named = true;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    if (peer == board_.rank()) continue;
    PeerBoard::Offer& offer = board_.offer(board_.rank(), peer);
    offer.size_bytes = out_.bytes(received(peer));
    if (!is_written_by(peer)) continue;
    offer.offset_bytes = out_.at(received(peer).first) - first;
    all_named = all_named && name_to(peer, first, end - first, last);
    offer.piece = last;
  }
  return all_named;
}

/// `last`: of the last peer; becomes what `peer` hears. A handle is good for all of them.
bool PeerCall::name_to(int peer, const std::byte* first, std::int64_t size_bytes, memory::DevicePiece& last) {
  if (last.way == memory::DevicePiece::Way::ipc) return true;
  auto exported = services_.requests.device_memory.export_to(world_ranks_[static_cast<std::size_t>(peer)], first,
                                                             static_cast<std::size_t>(size_bytes));
  if (auto* const not_mappable = std::get_if<memory::NotMappable>(&exported))
    return refuse(std::move(not_mappable->reason));
  const auto& pieces = std::get<memory::DeviceExport>(exported);
  last = pieces.front();
  return pieces.size() == 1 || refuse("the buffer spans several allocations");
}

/// Also after one that fails: descriptors that were passed are taken.
bool PeerCall::map_peers() {
  places_.resize(static_cast<std::size_t>(board_.ranks()));
  bool all_mapped = true;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    if (peer == board_.rank()) continue;
    // Where the counts of two ranks differ the MPI has to say so.
    if (board_.offer(peer, board_.rank()).size_bytes != in_.bytes(sent(peer))) all_mapped = false;
    if (writes_to(peer)) all_mapped = map_peer(peer) && all_mapped;
  }
  return all_mapped;
}

bool PeerCall::map_peer(int peer) {
  const PeerBoard::Offer& offer = board_.offer(peer, board_.rank());
  const int world_rank = world_ranks_[static_cast<std::size_t>(peer)];
  try {
    auto mapping = mappings_.map(world_rank, offer.piece, in_.device);
    if (const auto* const not_mappable = std::get_if<memory::NotMappable>(&mapping))
      return refuse(fmt::format("memory of rank {} cannot be mapped: {}", world_rank, not_mappable->reason));
    mapped_.push_back(std::get<std::shared_ptr<std::byte>>(std::move(mapping)));
    places_[static_cast<std::size_t>(peer)] = mapped_.back().get() + offer.offset_bytes;
    return true;
  } catch (const Error& error) {
    return refuse(fmt::format("memory of rank {} cannot be mapped: {}", world_rank, error.sentence()));
  }
}

/// Neighbours first, so that not all ranks write to the same one.
void PeerCall::ask_for_copies(memory::Stream& stream, std::byte* scratch) {
  const int self = board_.rank();
  for (int distance = 1; distance <= board_.ranks(); ++distance) {
    const int peer = (self + distance) % board_.ranks();
    const std::int64_t size_bytes = in_.bytes(sent(peer));
    if (peer == self && size_bytes > 0) {
      stream.copy(out_.at(received(self).first), in_.at(sent(self).first), static_cast<std::size_t>(size_bytes));
    } else if (writes_to(peer) && parts_.swaps) {
      swap_with(peer, stream, scratch);
    } else if (writes_to(peer)) {
      stream.copy(places_[static_cast<std::size_t>(peer)], in_.at(sent(peer).first),
                  static_cast<std::size_t>(size_bytes));
    }
  }
}

/// A piece after the other, each in the stream's order, so that the peer's is safe before it is written.
void PeerCall::swap_with(int peer, memory::Stream& stream, std::byte* scratch) const {
  const std::int64_t size_bytes = in_.bytes(sent(peer));
  for (std::int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += swapped_at_once_bytes) {
    const auto piece_bytes = static_cast<std::size_t>(std::min(swapped_at_once_bytes, size_bytes - done_bytes));
    std::byte* const own = in_.at(sent(peer).first) + done_bytes;
    std::byte* const theirs = places_[static_cast<std::size_t>(peer)] + done_bytes;
    stream.copy(scratch, theirs, piece_bytes);
    stream.copy(theirs, own, piece_bytes);
    stream.copy(own, scratch, piece_bytes);
  }
}

void PeerCall::copy() {
  std::int64_t largest_bytes = 0;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    if (writes_to(peer) || peer == board_.rank()) largest_bytes = std::max(largest_bytes, in_.bytes(sent(peer)));
  }
  if (largest_bytes == 0) return;
  std::optional<memory::DeviceBlock> scratch;
  if (parts_.swaps) {
    scratch.emplace(services_.requests.device_memory, in_.device,
                    static_cast<std::size_t>(std::min(largest_bytes, swapped_at_once_bytes)));
  }
  GpuLane& lane = services_.lanes.of(in_.device);
  std::unique_ptr<memory::Event> event = lane.take_event();
  std::optional<Error> failure;
  try {
    lane.ask(GpuLane::Work::copies, *event,
             [&](memory::Stream& stream) { ask_for_copies(stream, scratch ? scratch->address() : nullptr); });
    services_.lanes.await(*event);
  } catch (const std::exception&) {
    failure = current_error();
  }
  services_.lanes.end(lane, std::move(event));
  if (failure) throw Error(*failure);
}

/// Nobody returns before what is written to it has landed, nor while a peer may still need what it shows.
void PeerCall::end() {
  std::optional<Error> failure;
  try {
    copy();
  } catch (const std::exception&) {
    failure = current_error();
  }
  board_.answer(number_, Question::ended, {!failure, false});
  const PeerBoard::Answers answers = await_answers(Question::ended);
  const bool may_let_go = mappings_.keep(std::move(mapped_));
  if (failure) throw Error(*failure);
  if (answers.outcome == PeerBoard::Outcome::some_no) {
    throw Error(ErrorClass::other, "rank {} could not write what it sends to the memory of its peers",
                world_ranks_[static_cast<std::size_t>(answers.rank)]);
  }
  if (may_let_go) services_.let_go_of_peers_memory();
}

}  // namespace partita
