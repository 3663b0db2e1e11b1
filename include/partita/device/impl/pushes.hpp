// Where the words and the inboxes of a collective lie whose marks push (PARTITA_PREQUEST_PUSHED), and how its
// partitions are cut for those who reduce them. For the host too.
//
//   state:  Partita_Prequest_state │ a copy of the Partita_Prequest │ words of the partitions, words of the pieces
//   host:   Partita_Prequest_host  │ marked[partitions] │ reduced[partitions]
//   inbox:  flags of even, of odd epochs, one a partition each │ the data of an even, of an odd epoch
//
// A rank has an inbox for each other rank, in its own GPU's memory, one behind the other in the order of those ranks.
// Those of a bcast have no data, which go straight to the buffers; and the root's, where nobody raises flags, have
// credits in their place.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/areas.hpp>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// Whether marks of this collective store straight into the buffers of the other ranks, so that nothing is left to
/// reduce: where nobody needs what lay there. Each rank tells by a credit that it may be written over.
PARTITA_HOST_DEVICE constexpr bool pushes_straight(partita_u32 collective) {
  return collective == PARTITA_COLLECTIVE_BCAST;
}
/// How many of the bytes that a mark pushes lie in inboxes, and are reduced.
PARTITA_HOST_DEVICE constexpr partita_u64 bytes_by_inbox(partita_u32 collective, partita_u64 bytes) {
  return pushes_straight(collective) ? 0 : bytes;
}

// ---- Words behind the state ----------------------------------------------------------------------------------------

/// Words of each partition. They hold epochs, and start as the epoch before the first, but for the last ones.
enum PushWord : partita_u32 {
  push_marked,   ///< newest epoch in which a mark of it counted
  push_pushed,   ///< in which it lay in all inboxes: what this rank's own reductions wait for
  push_reduced,  ///< in which its result lay in the receive buffer
  push_pieces,   ///< how many of its pieces are reduced in this epoch; 0 between epochs
  push_words     ///< so many words
};

/// The request as kernels have it, for what is called out of line.
PARTITA_HOST_DEVICE inline Partita_Prequest* copy_of_request(Partita_Prequest_state* state) {
  return reinterpret_cast<Partita_Prequest*>(state + 1);
}
PARTITA_HOST_DEVICE inline partita_u32* push_words_of(Partita_Prequest_state* state, PushWord which,
                                                      partita_i32 partitions) {
  return reinterpret_cast<partita_u32*>(copy_of_request(state) + 1) + partita_i64{which} * partitions;
}
/// Newest epoch in which somebody took it on himself to reduce a piece: one a piece, those of a partition side by side.
PARTITA_HOST_DEVICE inline partita_u32* push_claims(Partita_Prequest_state* state, partita_i32 partitions) {
  return push_words_of(state, push_words, partitions);
}
PARTITA_HOST_DEVICE constexpr partita_u64 pushed_state_bytes(partita_i32 partitions, partita_u32 pieces) {
  const partita_u64 words = static_cast<partita_u64>(partitions) * (partita_u64{push_words} + pieces);
  return sizeof(Partita_Prequest_state) + sizeof(Partita_Prequest) + words * sizeof(partita_u32);
}

/// In host memory: newest epoch in which a kernel has marked each partition, and behind these words in which its result
/// was there.
PARTITA_HOST_DEVICE inline partita_u32* told_marked(Partita_Prequest_host* host) {
  return reinterpret_cast<partita_u32*>(host + 1);
}
PARTITA_HOST_DEVICE inline partita_u32* told_reduced(Partita_Prequest_host* host, partita_i32 partitions) {
  return told_marked(host) + partitions;
}
PARTITA_HOST_DEVICE constexpr partita_u64 pushed_host_bytes(partita_i32 partitions) {
  return sizeof(Partita_Prequest_host) + 2 * sizeof(partita_u32) * static_cast<partita_u64>(partitions);
}

// ---- Inboxes -------------------------------------------------------------------------------------------------------

inline constexpr partita_u64 inbox_line_bytes = 128;
PARTITA_HOST_DEVICE constexpr partita_u64 whole_inbox_lines(partita_u64 bytes) {
  return (bytes + inbox_line_bytes - 1) / inbox_line_bytes * inbox_line_bytes;
}
/// The flags of one parity take so many bytes.
PARTITA_HOST_DEVICE constexpr partita_u64 inbox_flags_bytes(partita_i32 partitions) {
  return whole_inbox_lines(static_cast<partita_u64>(partitions) * sizeof(partita_u32));
}
/// Where the data of an epoch begin. `block_bytes`, here and below: those that lie in inboxes.
PARTITA_HOST_DEVICE constexpr partita_u64 inbox_data_at(partita_i32 partitions, partita_u64 block_bytes,
                                                        partita_u32 epoch) {
  return 2 * inbox_flags_bytes(partitions) + (epoch & 1) * whole_inbox_lines(block_bytes);
}
PARTITA_HOST_DEVICE constexpr partita_u64 inbox_bytes(partita_i32 partitions, partita_u64 block_bytes) {
  return 2 * (inbox_flags_bytes(partitions) + whole_inbox_lines(block_bytes));
}
PARTITA_HOST_DEVICE inline partita_u32* inbox_flag(unsigned char* inbox, partita_i32 partitions, partita_i32 partition,
                                                   partita_u32 epoch) {
  return reinterpret_cast<partita_u32*>(inbox + (epoch & 1) * inbox_flags_bytes(partitions)) + partition;
}
/// In an inbox of the root, where pushes go straight: the newest epoch that kernels of that rank have opened. It starts
/// where epochs do.
PARTITA_HOST_DEVICE inline partita_u32* credit_in_inbox(unsigned char* inbox) {
  return reinterpret_cast<partita_u32*>(inbox);
}
/// Where the inbox for `rank` lies among those of rank `own`.
PARTITA_HOST_DEVICE constexpr partita_i32 index_of_inbox(partita_i32 own, partita_i32 rank) {
  return rank < own ? rank : rank - 1;
}

// ---- Pieces --------------------------------------------------------------------------------------------------------

/// Each partition in so many pieces, of so many units but for the last one; what one block reduces at a time. It goes
/// by the sizes alone; where nothing is to be reduced there is one piece of no units.
struct Pieces {
  partita_u32 count;
  partita_u64 units;
};
PARTITA_HOST_DEVICE constexpr Pieces pieces_of(partita_i32 partitions, partita_u64 partition_bytes) {
  constexpr partita_u64 fewest_units = 1024;
  constexpr partita_u32 most = 4096;  // of all partitions, unless there are more of these
  const partita_u64 units = units_of(partition_bytes);
  const partita_u32 room = most / static_cast<partita_u32>(partitions);
  const partita_u64 wanted = (units + fewest_units - 1) / fewest_units;
  const partita_u64 count = wanted < room ? wanted : room;
  if (count <= 1) return {1, units};
  const partita_u64 length = (units + count - 1) / count;
  return {static_cast<partita_u32>((units + length - 1) / length), length};
}

}  // namespace partita::device
