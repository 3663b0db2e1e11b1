#include "link/mpi/receiver.hpp"

#include <cstring>

namespace partita::link::mpi {
namespace {

/// MPI_UNDEFINED beyond what an int holds.
int received_bytes(const MPI_Status& status) {
  int count = 0;
  PARTITA_MPI(Get_count(&status, MPI_BYTE, &count));
  return count;
}

bool holds_all(const MPI_Status& status, Range bytes) {
  const int count = received_bytes(status);
  return count == bytes.size() || (count == MPI_UNDEFINED && bytes.size() > std::numeric_limits<int>::max());
}

int tags_for(const Blocks& blocks) {
  return blocks.count() + (blocks.may_go_in_parts() ? 1 : 0);
}

}  // namespace

MpiReceiver::MpiReceiver(World& world, const Endpoint& endpoint, const Plan& plan, std::int32_t blocks, TagRanges& tags)
    : peer_(endpoint.peer),
      data_(endpoint.data),
      blocks_(plan, blocks),
      tags_(tags, tags_for(blocks_)),
      arrived_(static_cast<std::size_t>(plan.transport_partitions())),
      block_receives_(endpoint.peer),
      awaited_(static_cast<std::size_t>(blocks)),
      piece_receive_(endpoint.peer) {
  create_receives(world);
}

void MpiReceiver::create_receives(World& world) {
  for (std::int32_t block = 0; block < blocks_.count(); ++block) {
    const Range bytes = blocks_.bytes(blocks_.transports(block));
    block_receives_.add(bytes.size(), [&](int count, MPI_Datatype type, MPI_Request* request) {
      PARTITA_MPI(Recv_init(data_ + bytes.begin, count, type, peer_, tags_.first() + block, world.data(), request));
    });
  }
  if (!blocks_.may_go_in_parts()) return;
  piece_message_.resize(Piece::head_bytes + Piece::most_bytes);
  piece_receive_.add(static_cast<std::int64_t>(piece_message_.size()),
                     [&](int count, MPI_Datatype type, MPI_Request* request) {
                       PARTITA_MPI(Recv_init(piece_message_.data(), count, type, peer_, tags_.first() + blocks_.count(),
                                             world.data(), request));
                     });
  piece_receive_.start(0);
}

MpiReceiver::~MpiReceiver() {
  if (!piece_message_.empty() && !piece_bytes_) piece_receive_.cancel(0);
}

ReceiverAnswer MpiReceiver::answer() {
  return {Answer{tags_.first(), blocks_.count()}.pack(), {.landings = {data_, data_}}, "internal messages of the MPI"};
}

void MpiReceiver::open(Epoch) {
  const std::lock_guard lock(mutex_);
  for (std::size_t block = 0; block < awaited_.size(); ++block) {
    awaited_[block] = {true, blocks_.transports(static_cast<std::int64_t>(block)).size()};
  }
  block_receives_.start_all();
}

bool MpiReceiver::arrived(std::int32_t t, Epoch epoch) {
  if (has_arrived(t, epoch)) return true;
  // One thread looks; another that comes meanwhile sees the outcome at its next look.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const std::int64_t block = blocks_.of(t);
  while (!has_arrived(t, epoch) && take_next(block, epoch)) {
  }
  return has_arrived(t, epoch);
}

bool MpiReceiver::has_arrived(std::int32_t t, Epoch epoch) const {
  return arrived_[static_cast<std::size_t>(t)].load(std::memory_order_acquire) == epoch;
}

void MpiReceiver::say_arrived(Range run, Epoch epoch) {
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    arrived_[static_cast<std::size_t>(t)].store(epoch, std::memory_order_release);
  }
}

/// Takes the message of `block` or a piece. False: neither has come, as far as this epoch is concerned.
bool MpiReceiver::take_next(std::int64_t block, Epoch epoch) {
  if (piece_bytes_ && take_piece(*piece_bytes_, epoch)) return true;
  MPI_Status status;
  switch (look(block, &status)) {
    case PersistentRequests::Done::neither:
      return false;
    case PersistentRequests::Done::first:
      take_message(block, epoch, status);
      break;
    case PersistentRequests::Done::second:
      piece_bytes_ = static_cast<std::size_t>(received_bytes(status));
      take_piece(*piece_bytes_, epoch);
      break;
  }
  return true;
}

/// One look at the MPI, for all that a partition of `block` waits for: its message is the first, a piece the second.
PersistentRequests::Done MpiReceiver::look(std::int64_t block, MPI_Status* status) {
  using Done = PersistentRequests::Done;
  const bool message = awaited_[static_cast<std::size_t>(block)].message;
  const bool piece = !piece_message_.empty() && !piece_bytes_;
  if (message && piece) return PersistentRequests::test_either(block_receives_, block, piece_receive_, 0, status);
  if (message && block_receives_.test(block, status)) return Done::first;
  if (piece && piece_receive_.test(0, status)) return Done::second;
  return Done::neither;
}

/// The message of a block is all of its bytes; or it is empty, and these come in pieces.
void MpiReceiver::take_message(std::int64_t block, Epoch epoch, const MPI_Status& status) {
  Awaited& awaited = awaited_[static_cast<std::size_t>(block)];
  awaited.message = false;
  const Range all = blocks_.transports(block);
  if (all.size() > 1 && received_bytes(status) == 0) {
    if (awaited.transports == 0) say_arrived(all, epoch);
  } else if (holds_all(status, blocks_.bytes(all))) {
    say_arrived(all, epoch);
  } else {
    throw Error(ErrorClass::internal, "link mpi received {} bytes from rank {}; expected are {}",
                received_bytes(status), peer_, blocks_.bytes(all).size());
  }
}

/// Takes the piece that has come, and waits for the next. One of a later epoch stays where it is until that is open.
bool MpiReceiver::take_piece(std::size_t size_bytes, Epoch epoch) {
  const auto message = std::span(piece_message_).first(size_bytes);
  Piece piece;
  naming_peer(peer_, [&] { piece = Piece::unpack(message, blocks_); });
  if (piece.epoch != epoch) return false;
  piece_bytes_.reset();
  const Range of_run = blocks_.bytes(piece.run());
  const Range bytes = piece.bytes(of_run);
  if (bytes.size() > 0) {
    std::memcpy(data_ + bytes.begin, message.data() + Piece::head_bytes, static_cast<std::size_t>(bytes.size()));
  }
  if (piece.is_last(of_run)) take_run(piece.run(), epoch);
  piece_receive_.start(0);
  return true;
}

/// No receive into the buffer may be left when the last transport partition arrives: where a block went in parts, its
/// last part has arrived once the block's message has.
void MpiReceiver::take_run(Range run, Epoch epoch) {
  Awaited& awaited = awaited_[static_cast<std::size_t>(blocks_.of(run.begin))];
  awaited.transports -= run.size();
  if (awaited.transports > 0 || !awaited.message) say_arrived(run, epoch);
}

}  // namespace partita::link::mpi
