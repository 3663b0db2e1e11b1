// How a collective that kernels do cuts its data, and the area that each rank has in the memory of each other one for
// it. For the host too.
//
//   area of a rank:  a line for each strip │ for each strip: two sets of packet slots, by the flag's parity │ flags
//
// Neither depends on how many blocks and threads a kernel has, so that ranks may differ in that.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// So many ranks do a collective in kernels.
inline constexpr int most_collective_ranks = 8;
/// Bytes that a thread moves at once, and their two packets.
inline constexpr partita_u64 area_unit_bytes = 16;
inline constexpr partita_u64 area_slot_bytes = 2 * area_unit_bytes;
/// A share has at most so many units, ...
inline constexpr partita_u32 most_share_units = 256;
/// ... and the data at most so many strips.
inline constexpr partita_u32 most_strips = 64;

/// Each strip has a line of its own, whose first word says what that rank has unpacked in whose memory the area does
/// not lie: a rooted collective's credit.
inline constexpr partita_u32 words_of_line = 32;

PARTITA_HOST_DEVICE constexpr partita_u64 lines_bytes(partita_u32 strips) {
  return partita_u64{strips} * words_of_line * sizeof(partita_u32);
}
PARTITA_HOST_DEVICE constexpr partita_u64 slots_of_strip_bytes() {
  return 2 * most_share_units * area_slot_bytes;
}
/// In the peers' buffers the data are cut into strips of their own, at most so many.
inline constexpr partita_u32 most_strips_of_buffers = 128;
/// For that an area ends with flags: on a line of its own the one by which that rank says that its buffers may be read
/// and written, and then one a strip, by which it says that it has moved that.
PARTITA_HOST_DEVICE constexpr partita_u64 flags_bytes() {
  return (words_of_line + most_strips_of_buffers) * sizeof(partita_u32);
}
/// Bytes of an area, with so many strips of packets.
PARTITA_HOST_DEVICE constexpr partita_u64 area_bytes(partita_u32 strips) {
  return lines_bytes(strips) + strips * slots_of_strip_bytes() + flags_bytes();
}
PARTITA_HOST_DEVICE inline partita_u32* begun_word(unsigned char* area, partita_u32 strips) {
  return reinterpret_cast<partita_u32*>(area + area_bytes(strips) - flags_bytes());
}
/// `strip`: of the buffers.
PARTITA_HOST_DEVICE inline partita_u32* moved_word(unsigned char* area, partita_u32 strips, partita_u32 strip) {
  return begun_word(area, strips) + words_of_line + strip;
}

PARTITA_HOST_DEVICE constexpr partita_u64 units_of(partita_u64 block_bytes) {
  return (block_bytes + area_unit_bytes - 1) / area_unit_bytes;
}

/// How a block of the data, or of a two-shot allreduce a rank's part of it, is cut for packets: into shares of nearly
/// equal length, in the order of rounds and strips.
struct Cut {
  partita_u32 strips = 0;
  partita_u32 rounds = 0;
  partita_u64 share_units = 0;
  partita_u32 longer_shares = 0;
};

/// No share is empty, so that each rank hears of each other one in each strip and round. `most`: strips, whose slots
/// are what an area takes.
PARTITA_HOST_DEVICE constexpr Cut cut_of(partita_u64 block_bytes, partita_u32 most = most_strips) {
  const partita_u64 units = units_of(block_bytes);
  if (units == 0) return {};
  const partita_u64 full = (units + most_share_units - 1) / most_share_units;
  const partita_u32 strips = full < most ? static_cast<partita_u32>(full) : most;
  const partita_u32 rounds = static_cast<partita_u32>((full + strips - 1) / strips);
  const partita_u64 shares = partita_u64{strips} * rounds;
  return {strips, rounds, units / shares, static_cast<partita_u32>(units % shares)};
}

/// Units from `begin` on, `end` not included.
struct UnitRange {
  partita_u64 begin;
  partita_u64 end;
};

/// `a` / `b`, rounded up. A GPU divides 64 bits in some hundreds of cycles, and 32 bits in some tens.
PARTITA_HOST_DEVICE constexpr partita_u64 divided_up(partita_u64 a, partita_u32 b) {
  const partita_u64 sum = a + b - 1;
  return sum >> 32 == 0 ? static_cast<partita_u32>(sum) / b : sum / b;
}

/// Part `index` of `range`, in so many parts of equal length, but for the last ones, which may be shorter or empty.
/// Parts begin a multiple of 128 bytes behind its beginning.
PARTITA_HOST_DEVICE constexpr UnitRange part_of(UnitRange range, partita_u32 parts, partita_u32 index) {
  constexpr partita_u32 line_units = 128 / area_unit_bytes;
  const partita_u64 units = range.end - range.begin;
  const partita_u64 length = divided_up(units, parts * line_units) * line_units;
  const partita_u64 begin = index * length < units ? index * length : units;
  return {range.begin + begin, range.begin + (units - begin < length ? units : begin + length)};
}

/// Bytes of what is cut for packets: of a block, or of a two-shot allreduce of so many ranks the first one's part, than
/// which none is longer.
PARTITA_HOST_DEVICE constexpr partita_u64 cut_bytes(partita_u32 algorithm, partita_u64 block_bytes, partita_u32 ranks) {
  if (algorithm != PARTITA_ALGORITHM_TWO_SHOT) return block_bytes;
  const UnitRange part = part_of({0, units_of(block_bytes)}, ranks, 0);
  return (part.end - part.begin) * area_unit_bytes;
}

/// Into how many strips buffers are cut where the rank that moves most moves so much.
PARTITA_HOST_DEVICE constexpr partita_u32 strips_of_buffers(UnitRange longest) {
  const partita_u64 full = (longest.end - longest.begin + most_share_units - 1) / most_share_units;
  if (full == 0) return 1;
  return full < most_strips_of_buffers ? static_cast<partita_u32>(full) : most_strips_of_buffers;
}

/// Partita_Prequest.unit_bytes of a collective: the largest of 16, 8, 4, 2, 1 that divides all of the numbers whose
/// bits are `joined`.
PARTITA_HOST_DEVICE constexpr partita_u32 common_unit_bytes(partita_u64 joined) {
  return static_cast<partita_u32>((joined | area_unit_bytes) & (0 - (joined | area_unit_bytes)));
}

}  // namespace partita::device
