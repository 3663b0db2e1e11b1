// Copies between GPU memories that several threads make together.
#pragma once

#include <partita/device/impl/platform.cuh>

#if !defined(__CUDACC__)
#include <cstring>
#endif

namespace partita::device {

/// Threads that copy together: `rank` of `count`.
struct Team {
  partita_u32 rank;
  partita_u32 count;
};

#if defined(__CUDACC__)

/// 16 bytes at `from`, read as `Word`s.
template <class Word>
PARTITA_DEVICE_INLINE uint4 load_16(const unsigned char* from) {
  constexpr int words = 16 / sizeof(Word);
  partita_u32 result[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < words; ++i) {
    const partita_u64 word = reinterpret_cast<const Word*>(from)[i];
    const int bit = i * static_cast<int>(sizeof(Word)) * 8;
    result[bit / 32] |= static_cast<partita_u32>(word) << (bit % 32);
    if (sizeof(Word) == 8) result[bit / 32 + 1] = static_cast<partita_u32>(word >> 32);
  }
  return uint4{result[0], result[1], result[2], result[3]};
}
template <>
PARTITA_DEVICE_INLINE uint4 load_16<uint4>(const unsigned char* from) {
  return *reinterpret_cast<const uint4*>(from);
}

/// `vectors` × 16 bytes to a 16-byte boundary, `depth` loads of each thread in flight; `from` is aligned for `Word`.
template <class Word, int depth>
PARTITA_DEVICE_INLINE void copy_vectors(unsigned char* to, const unsigned char* from, partita_i64 vectors, Team team) {
  for (partita_i64 i = team.rank; i < vectors; i += partita_i64{depth} * team.count) {
    uint4 held[depth];
#pragma unroll
    for (int k = 0; k < depth; ++k) {
      const partita_i64 at = i + partita_i64{k} * team.count;
      if (at < vectors) held[k] = load_16<Word>(from + 16 * at);
    }
#pragma unroll
    for (int k = 0; k < depth; ++k) {
      const partita_i64 at = i + partita_i64{k} * team.count;
      if (at < vectors) *reinterpret_cast<uint4*>(to + 16 * at) = held[k];
    }
  }
}

/// The unit that a thread copies first, loaded before it is known whether it may be stored.
struct Ahead {
  uint4 held;
};

/// How many bytes of a piece that consists of units of `unit_bytes` its team loads ahead.
PARTITA_DEVICE_INLINE partita_u32 bytes_ahead(partita_i64 size_bytes, partita_u32 unit_bytes, Team team) {
  const partita_u32 most = unit_bytes >= 4 ? unit_bytes * team.count : 0;
  return size_bytes < most ? static_cast<partita_u32>(size_bytes) : most;
}

PARTITA_DEVICE_INLINE Ahead load_ahead(const unsigned char* from, partita_i64 size_bytes, partita_u32 unit_bytes,
                                       Team team) {
  Ahead ahead{};
  uint4& held = ahead.held;
  const partita_u32 at = unit_bytes * team.rank;
  if (at >= bytes_ahead(size_bytes, unit_bytes, team)) return ahead;
  if (unit_bytes == 16) {
    held = *reinterpret_cast<const uint4*>(from + at);
  } else if (unit_bytes == 8) {
    const uint2 words = *reinterpret_cast<const uint2*>(from + at);
    held.x = words.x;
    held.y = words.y;
  } else {
    held.x = *reinterpret_cast<const partita_u32*>(from + at);
  }
  return ahead;
}

/// Stores it, and returns how many bytes of the piece the team has copied so.
PARTITA_DEVICE_INLINE partita_u32 store_ahead(unsigned char* to, partita_i64 size_bytes, partita_u32 unit_bytes,
                                              Team team, const Ahead& ahead) {
  const partita_u32 end = bytes_ahead(size_bytes, unit_bytes, team);
  const partita_u32 at = unit_bytes * team.rank;
  if (at >= end) return end;
  const uint4& held = ahead.held;
  if (unit_bytes == 16) {
    *reinterpret_cast<uint4*>(to + at) = held;
  } else if (unit_bytes == 8) {
    *reinterpret_cast<uint2*>(to + at) = uint2{held.x, held.y};
  } else {
    *reinterpret_cast<partita_u32*>(to + at) = held.x;
  }
  return end;
}

/// The team copies `size_bytes` of any alignment: whole 16-byte stores wherever `to` allows them, each thread with
/// `depth` of them on their way. No barrier at either end. Inlined: across a call a mark's words are spilled, and read
/// again from a cache that every wait empties.
template <int depth = 4>
PARTITA_DEVICE_INLINE void copy(unsigned char* to, const unsigned char* from, partita_i64 size_bytes, Team team) {
  const partita_u64 to_address = reinterpret_cast<partita_u64>(to);
  const partita_i64 until_boundary = static_cast<partita_i64>((16 - to_address % 16) % 16);
  const partita_i64 before = until_boundary < size_bytes ? until_boundary : size_bytes;
  for (partita_i64 i = team.rank; i < before; i += team.count) to[i] = from[i];

  const partita_i64 vectors = (size_bytes - before) / 16;
  unsigned char* const to_vectors = to + before;
  const unsigned char* const from_vectors = from + before;
  const partita_u64 shift = reinterpret_cast<partita_u64>(from_vectors) % 16;
  if (shift == 0) {
    copy_vectors<uint4, depth>(to_vectors, from_vectors, vectors, team);
  } else if (shift % 8 == 0) {
    copy_vectors<partita_u64, depth>(to_vectors, from_vectors, vectors, team);
  } else if (shift % 4 == 0) {
    copy_vectors<partita_u32, depth>(to_vectors, from_vectors, vectors, team);
  } else {
    copy_vectors<unsigned char, 1>(to_vectors, from_vectors, vectors, team);
  }

  for (partita_i64 i = before + 16 * vectors + team.rank; i < size_bytes; i += team.count) to[i] = from[i];
}

/// The team copies what lies from `begin` to `end` of a piece in its units, one of each thread on its way: for kernels
/// that have few registers. No barrier at either end.
PARTITA_DEVICE_INLINE void copy_in_units(unsigned char* to, const unsigned char* from, partita_i64 begin,
                                         partita_i64 end, partita_u32 unit_bytes, Team team) {
  const partita_i64 step = partita_i64{unit_bytes} * team.count;
#pragma unroll 1
  for (partita_i64 at = begin + partita_i64{unit_bytes} * team.rank; at < end; at += step) {
    if (unit_bytes == 16) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
    } else if (unit_bytes == 8) {
      *reinterpret_cast<partita_u64*>(to + at) = *reinterpret_cast<const partita_u64*>(from + at);
    } else if (unit_bytes == 4) {
      *reinterpret_cast<partita_u32*>(to + at) = *reinterpret_cast<const partita_u32*>(from + at);
    } else {
#pragma unroll 1
      for (partita_u32 i = 0; i < unit_bytes; ++i) to[at + i] = from[at + i];
    }
  }
}

/// Copies what lies behind the first `done` bytes of a piece, which store_ahead has stored. No barrier at either end.
PARTITA_DEVICE_INLINE void copy_rest(unsigned char* to, const unsigned char* from, partita_i64 done,
                                     partita_i64 size_bytes, partita_u32 unit_bytes, Team team) {
#if defined(PARTITA_DEVICE_FEW_REGISTERS)
  copy_in_units(to, from, done, size_bytes, unit_bytes, team);
#else
  if (done < size_bytes) copy(to + done, from + done, size_bytes - done, team);
#endif
}

#else

/// Nothing is loaded ahead here.
struct Ahead {};

inline Ahead load_ahead(const unsigned char*, partita_i64, partita_u32, Team) {
  return {};
}
inline partita_u32 store_ahead(unsigned char*, partita_i64, partita_u32, Team, const Ahead&) {
  return 0;
}

/// The team copies `size_bytes`, each thread a piece of it. No barrier at either end.
inline void copy(unsigned char* to, const unsigned char* from, partita_i64 size_bytes, Team team) {
  const partita_i64 begin = size_bytes * team.rank / team.count;
  const partita_i64 end = size_bytes * (team.rank + partita_i64{1}) / team.count;
  if (begin < end) ::std::memcpy(to + begin, from + begin, static_cast< ::std::size_t>(end - begin));
}
inline void copy_rest(unsigned char* to, const unsigned char* from, partita_i64 done, partita_i64 size_bytes,
                      partita_u32, Team team) {
  if (done < size_bytes) copy(to + done, from + done, size_bytes - done, team);
}

#endif

}  // namespace partita::device
