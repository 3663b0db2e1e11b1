// What the two sides of a request tell each other over link mpi, when they are matched and in front of bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/mpi/blocks.hpp"

namespace partita::link::mpi {

/// Receiver to sender.
struct Answer {
  int first_tag = 0;        ///< block b has the tag first_tag + b, and the tag after them all is that of pieces
  std::int32_t blocks = 1;  ///< of the transport partitions (blocks.hpp)

  wire::Bytes pack() const { return wire::Writer().put(first_tag).put(blocks).take(); }
  /// Throws Error also where there are more blocks than `transport_partitions`, or tags that pass `tag_upper_bound`.
  static Answer unpack(std::span<const std::byte> bytes, std::int32_t transport_partitions, int tag_upper_bound) {
    wire::Reader reader(bytes);
    Answer answer;
    answer.first_tag = reader.get<int>();
    answer.blocks = reader.get<std::int32_t>();
    reader.end();
    if (answer.blocks < 1 || answer.blocks > transport_partitions) {
      throw wire::malformed("names {} blocks of {} transport partitions", answer.blocks, transport_partitions);
    }
    if (answer.first_tag < 0 || answer.first_tag > tag_upper_bound - answer.blocks) {
      throw wire::malformed("names tags from {} on for {} blocks; the MPI has {}", answer.first_tag, answer.blocks,
                            tag_upper_bound);
    }
    return answer;
  }
};

/// Stands in front of the bytes of a piece: of `most_bytes` of what some neighbouring transport partitions of a block
/// hold, or of what is left of it.
struct Piece {
  /// So small that the whole message is one which MPIs take at once, whatever the receiver does: Open MPI up to 4 KiB
  /// with its own header, others more.
  static constexpr std::int64_t most_bytes = 4000;

  std::int32_t begin = 0;  ///< the run of transport partitions
  std::int32_t end = 0;
  std::int32_t index = 0;  ///< of the piece in the run; the last one says that they have arrived
  Epoch epoch = no_epoch;

  static constexpr std::size_t head_bytes = 16;

  Range run() const { return {begin, end}; }
  /// What it carries of the run's bytes.
  Range bytes(Range of_run) const {
    const std::int64_t first = of_run.begin + index * most_bytes;
    return {first, std::min(first + most_bytes, of_run.end)};
  }
  bool is_last(Range of_run) const { return bytes(of_run).end == of_run.end; }

  std::array<std::byte, head_bytes> pack() const {
    std::array<std::byte, head_bytes> head;
    const std::int32_t numbers[] = {begin, end, index};
    std::memcpy(head.data(), numbers, sizeof(numbers));
    std::memcpy(head.data() + sizeof(numbers), &epoch, sizeof(epoch));
    return head;
  }
  /// Reads the head of `message`. Throws Error where the run or the number of bytes is none that `blocks` allow.
  static Piece unpack(std::span<const std::byte> message, const Blocks& blocks) {
    wire::Reader head(message.first(std::min(message.size(), head_bytes)));
    Piece piece;
    piece.begin = head.get<std::int32_t>();
    piece.end = head.get<std::int32_t>();
    piece.index = head.get<std::int32_t>();
    piece.epoch = head.get<Epoch>();
    const bool in_a_block = piece.begin >= 0 && piece.begin < piece.end && piece.end <= blocks.transport_partitions() &&
                            piece.end <= blocks.transports(blocks.of(piece.begin)).end;
    if (!in_a_block) {
      throw wire::malformed("is a piece of the transport partitions from {} to {}, which are not of one block",
                            piece.begin, piece.end);
    }
    const std::int64_t bytes = piece.bytes(blocks.bytes(piece.run())).size();
    const auto carried = static_cast<std::int64_t>(message.size() - head_bytes);
    if (piece.index < 0 || bytes != carried || (bytes == 0 && piece.index > 0)) {
      throw wire::malformed("holds {} bytes as piece {}; expected are {}", carried, piece.index, bytes);
    }
    return piece;
  }
};

}  // namespace partita::link::mpi
