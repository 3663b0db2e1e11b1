#include "link/mpi/sender.hpp"

#include "link/mpi/messages.hpp"

namespace partita::link::mpi {

std::variant<SenderFacts, Obstacle> MpiSender::connect(const Plan& plan, std::byte* data,
                                                       std::span<const std::byte> message) {
  const Answer answer = Answer::unpack(message, plan.transport_partitions(), world_.tag_upper_bound());
  blocks_ = Blocks(plan, answer.blocks);
  data_ = data;
  first_tag_ = answer.first_tag;
  for (std::int32_t block = 0; block < blocks_.count(); ++block) {
    const Range bytes = blocks_.bytes(blocks_.transports(block));
    sends_.add(bytes.size(), [&](int count, MPI_Datatype type, MPI_Request* request) {
      if (synchronous_) {  // its receive is posted where the receiver starts the epoch
        PARTITA_MPI(Ssend_init(data + bytes.begin, count, type, peer_, first_tag_ + block, world_.data(), request));
        return;
      }
      PARTITA_MPI(Send_init(data + bytes.begin, count, type, peer_, first_tag_ + block, world_.data(), request));
    });
  }
  if (blocks_.may_go_in_parts()) {
    left_ = std::vector<std::atomic<std::int32_t>>(static_cast<std::size_t>(blocks_.count()));
  }
  return SenderFacts{};
}

void MpiSender::start(Epoch) {
  for (std::size_t block = 0; block < left_.size(); ++block) {
    const Range all = blocks_.transports(static_cast<std::int64_t>(block));
    left_[block].store(static_cast<std::int32_t>(all.size()), std::memory_order_relaxed);
  }
}

void MpiSender::put(Range run, Epoch epoch) {
  while (run.size() > 0) {
    const std::int64_t block = blocks_.of(run.begin);
    const Range all = blocks_.transports(block);
    const Range part{run.begin, std::min(run.end, all.end)};
    if (part == all && blocks_.can_go_whole(block)) {
      sends_.start(block);
    } else {
      put_part(block, part, epoch);
    }
    run.begin = part.end;
  }
}

/// The last part of a block is followed by an empty message for the receive that waits for all of it.
void MpiSender::put_part(std::int64_t block, Range part, Epoch epoch) {
  const auto send = [&](int tag, std::span<const std::byte> head, std::span<const std::byte> bytes) {
    naming_peer(peer_, [&] { copied_.send(peer_, tag, head, bytes); });
  };
  const Range bytes = blocks_.bytes(part);
  Piece piece{static_cast<std::int32_t>(part.begin), static_cast<std::int32_t>(part.end), 0, epoch};
  for (bool last = false; !last; ++piece.index) {
    const Range carried = piece.bytes(bytes);
    send(first_tag_ + blocks_.count(), piece.pack(), {data_ + carried.begin, static_cast<std::size_t>(carried.size())});
    last = piece.is_last(bytes);
  }
  const auto count = static_cast<std::int32_t>(part.size());
  if (left_[static_cast<std::size_t>(block)].fetch_sub(count, std::memory_order_relaxed) > count) return;
  send(first_tag_ + static_cast<int>(block), {}, {});
}

}  // namespace partita::link::mpi
