// Packets: 8 bytes of data travel as {4 bytes, epoch, 4 bytes, epoch}. Half a packet is stored at once, so a matching
// epoch vouches for the 4 bytes beside it, and neither fence nor flag is needed.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

inline constexpr partita_i64 packet_data_bytes = 8;
inline constexpr partita_i64 packet_bytes = 16;
/// Loads that a thread has on their way at once.
inline constexpr int packet_depth = 4;

/// 8 bytes from anywhere: a buffer is aligned as its program likes.
PARTITA_DEVICE_INLINE partita_u64 load_8(const unsigned char* from) {
  const partita_u64 address = reinterpret_cast<partita_u64>(from);
  if (address % 8 == 0) return *reinterpret_cast<const partita_u64*>(from);
  if (address % 4 == 0) {
    const auto* const words = reinterpret_cast<const partita_u32*>(from);
    return pair_of(words[0], words[1]);
  }
  partita_u64 value = 0;
  for (int i = 0; i < 8; ++i) value |= partita_u64{from[i]} << (8 * i);
  return value;
}

PARTITA_DEVICE_INLINE void store_8(unsigned char* to, partita_u64 value) {
  const partita_u64 address = reinterpret_cast<partita_u64>(to);
  if (address % 8 == 0) {
    *reinterpret_cast<partita_u64*>(to) = value;
  } else if (address % 4 == 0) {
    auto* const words = reinterpret_cast<partita_u32*>(to);
    words[0] = low_half(value);
    words[1] = high_half(value);
  } else {
    for (int i = 0; i < 8; ++i) to[i] = static_cast<unsigned char>(value >> (8 * i));
  }
}

/// The data of two packets of a thread.
struct TwoPackets {
  partita_u64 first;
  partita_u64 second;
};

/// What this thread of the team sends first, loaded before its epoch is known.
PARTITA_DEVICE_INLINE TwoPackets first_packets(const unsigned char* from, partita_i64 size_bytes, Team team) {
  const partita_i64 packets = size_bytes / packet_data_bytes;
  const partita_i64 second = partita_i64{team.rank} + team.count;
  TwoPackets data{0, 0};
  if (reinterpret_cast<partita_u64>(from) % 8 == 0) {  // and so is every packet of the piece: two loads, no branch
    const auto* const words = reinterpret_cast<const partita_u64*>(from);
    if (team.rank < packets) data.first = words[team.rank];
    if (second < packets) data.second = words[second];
    return data;
  }
  if (team.rank < packets) data.first = load_8(from + packet_data_bytes * team.rank);
  if (second < packets) data.second = load_8(from + packet_data_bytes * second);
  return data;
}

PARTITA_DEVICE_INLINE void send_packet(unsigned char* slots, partita_i64 index, partita_u64 data, Epoch epoch) {
  store_packet(slots + packet_bytes * index, {pair_of(low_half(data), epoch), pair_of(high_half(data), epoch)});
}

/// The team stores `size_bytes`, a multiple of 8, into the slots at `slots`; `data`: this thread's first_packets.
PARTITA_DEVICE_INLINE void send_packets(unsigned char* slots, const unsigned char* from, partita_i64 size_bytes,
                                        Epoch epoch, Team team, TwoPackets data) {
  const partita_i64 packets = size_bytes / packet_data_bytes;
  const partita_i64 count = team.count;
  if (team.rank < packets) send_packet(slots, team.rank, data.first, epoch);
  if (team.rank + count < packets) send_packet(slots, team.rank + count, data.second, epoch);
  for (partita_i64 i = team.rank + 2 * count; i < packets; i += count) {
    send_packet(slots, i, load_8(from + packet_data_bytes * i), epoch);
  }
}

PARTITA_DEVICE_INLINE bool has_arrived(PacketWords words, Epoch epoch) {
  return high_half(words.first) == epoch && high_half(words.second) == epoch;
}

/// Whether all packets of `size_bytes` are there. Called by one thread; does not wait.
MPIX_Device inline bool packets_have_arrived(const unsigned char* slots, partita_i64 size_bytes, Epoch epoch) {
  const partita_i64 packets = size_bytes / packet_data_bytes;
  for (partita_i64 i = 0; i < packets; ++i) {
    if (!has_arrived(load_packet(slots + packet_bytes * i), epoch)) return false;
  }
  return true;
}

/// The team waits for the packets of `size_bytes` and stores their data at `to`. Gives 0, or the code with which this
/// thread's wait ended. No barrier at either end.
MPIX_Device inline int receive_packets(unsigned char* to, const unsigned char* slots, partita_i64 size_bytes,
                                       Epoch epoch, Team team, const Partita_Prequest& request) {
  const partita_i64 packets = size_bytes / packet_data_bytes;
  Patience patience(request);
  for (partita_i64 i = team.rank; i < packets; i += partita_i64{packet_depth} * team.count) {
    PacketWords held[packet_depth];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int k = 0; k < packet_depth; ++k) {
      const partita_i64 at = i + partita_i64{k} * team.count;
      if (at < packets) held[k] = load_packet(slots + packet_bytes * at);
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int k = 0; k < packet_depth; ++k) {
      const partita_i64 at = i + partita_i64{k} * team.count;
      if (at >= packets) continue;
      while (!has_arrived(held[k], epoch)) {
        if (const int code = patience.look()) return code;
        held[k] = load_packet(slots + packet_bytes * at);
      }
      store_8(to + packet_data_bytes * at, pair_of(low_half(held[k].first), low_half(held[k].second)));
    }
  }
  return 0;
}

}  // namespace partita::device
