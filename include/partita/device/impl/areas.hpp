// How a collective that kernels do cuts its data, and the area that each rank has in the memory of each other one for
// it. For the host too.
//
//   area of a rank:  a line for each strip │ for each strip: two sets of packet slots, by the flag's parity
//
// Neither depends on how many blocks and threads a kernel has, so that ranks may differ in that.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

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
/// Bytes of an area.
PARTITA_HOST_DEVICE constexpr partita_u64 area_bytes(partita_u32 strips) {
  return lines_bytes(strips) + strips * slots_of_strip_bytes();
}

/// How a block of the data is cut: into shares of nearly equal length, in the order of rounds and strips.
struct Cut {
  partita_u32 strips = 0;
  partita_u32 rounds = 0;
  partita_u64 share_units = 0;
  partita_u32 longer_shares = 0;
};

/// No share is empty, so that each rank hears of each other one in each strip and round.
PARTITA_HOST_DEVICE constexpr Cut cut_of(partita_u64 block_bytes) {
  const partita_u64 units = (block_bytes + area_unit_bytes - 1) / area_unit_bytes;
  if (units == 0) return {};
  const partita_u64 full = (units + most_share_units - 1) / most_share_units;
  const partita_u32 strips = full < most_strips ? static_cast<partita_u32>(full) : most_strips;
  const partita_u32 rounds = static_cast<partita_u32>((full + strips - 1) / strips);
  const partita_u64 shares = partita_u64{strips} * rounds;
  return {strips, rounds, units / shares, static_cast<partita_u32>(units % shares)};
}

}  // namespace partita::device
