// The body of the kernel that copies elements of a datatype with gaps; for GPUs and, in tests, for CPU threads.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/platform.cuh>

#include "memory/kernels.hpp"

namespace partita::memory {

/// 16 bytes that are copied at once.
struct alignas(16) PackUnit16 {
  partita_u64 halves[2];
};

/// Where unit `at` of the packed bytes lies behind the buffer's address. `Index` can count the units of all elements.
template <class Unit, class Index>
PARTITA_DEVICE_INLINE partita_i64 offset_of_unit(const PackElements& arguments, Index at) {
  const Index units_each = static_cast<Index>(arguments.size_bytes / sizeof(Unit));
  const Index element = at / units_each;
  const Index within = at - element * units_each;
  partita_u32 run = 0;
  for (partita_u32 end = arguments.run_count; end - run > 1;) {
    const partita_u32 middle = run + (end - run) / 2;
    if (static_cast<Index>(arguments.runs[middle].packed_bytes / sizeof(Unit)) <= within) {
      run = middle;
    } else {
      end = middle;
    }
  }
  const PackRun& found = arguments.runs[run];
  const Index in_run = within - static_cast<Index>(found.packed_bytes / sizeof(Unit));
  const Index length = static_cast<Index>(found.length_bytes / sizeof(Unit));
  const Index piece = in_run < length ? 0 : in_run / length;
  const Index in_piece = in_run - piece * length;
  return static_cast<partita_i64>(element) * arguments.extent_bytes + found.offset_bytes +
         static_cast<partita_i64>(piece) * found.stride_bytes + static_cast<partita_i64>(in_piece * sizeof(Unit));
}

template <class Unit, class Index>
PARTITA_DEVICE_INLINE void pack_units(const PackElements& arguments, device::Team team) {
  constexpr int depth = 4;  // loads of a thread in flight
  auto* const user = static_cast<unsigned char*>(arguments.user);
  auto* const packed = static_cast<Unit*>(arguments.packed);
  const partita_u64 units = arguments.bytes / sizeof(Unit);
  for (partita_u64 first = team.rank; first < units; first += partita_u64{depth} * team.count) {
    Unit held[depth];
    Unit* to[depth];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int k = 0; k < depth; ++k) {
      const partita_u64 at = first + static_cast<partita_u64>(k) * team.count;
      to[k] = nullptr;
      if (at >= units) continue;
      auto* const gapped =
          reinterpret_cast<Unit*>(user + offset_of_unit<Unit, Index>(arguments, static_cast<Index>(at)));
      held[k] = arguments.unpacks != 0 ? packed[at] : *gapped;
      to[k] = arguments.unpacks != 0 ? gapped : packed + at;
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int k = 0; k < depth; ++k) {
      if (to[k] != nullptr) *to[k] = held[k];
    }
  }
}

template <class Unit>
PARTITA_DEVICE_INLINE void pack_units(const PackElements& arguments, device::Team team) {
  // Divisions of 64 bits cost several times as much. A message may be a small part of a large element.
  const bool is_huge = (arguments.bytes | arguments.size_bytes) / sizeof(Unit) >> 32 != 0;
  if (is_huge) return pack_units<Unit, partita_u64>(arguments, team);
  pack_units<Unit, partita_u32>(arguments, team);
}

/// All threads of the grid, which are `team`.
PARTITA_DEVICE_INLINE void pack_elements(const PackElements& arguments, device::Team team) {
  switch (arguments.unit_bytes) {
    case 16:
      return pack_units<PackUnit16>(arguments, team);
    case 8:
      return pack_units<partita_u64>(arguments, team);
    case 4:
      return pack_units<partita_u32>(arguments, team);
    case 2:
      return pack_units<unsigned short>(arguments, team);
    default:
      return pack_units<unsigned char>(arguments, team);
  }
}

/// Thread `rank` of the `threads` of a block.
PARTITA_DEVICE_INLINE void pack_together(const PackTogether& arguments, partita_u32 block, partita_u32 rank,
                                         partita_u32 threads) {
  partita_u32 index = 0;
  for (; block >= arguments.blocks[index]; ++index) block -= arguments.blocks[index];
  pack_elements(arguments.each[index], {block * threads + rank, arguments.blocks[index] * threads});
}

}  // namespace partita::memory
