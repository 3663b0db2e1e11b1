// Packets: 8 bytes of data travel as {4 bytes, epoch, 4 bytes, epoch}. Half a packet is stored at once, so a matching
// epoch vouches for the 4 bytes beside it, and neither fence nor flag is needed.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/wait.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

inline constexpr partita_i64 packet_data_bytes = 8;
inline constexpr partita_i64 packet_bytes = 16;

/// How many of them `size_bytes` take, a multiple of 8; requests in packets are small.
PARTITA_DEVICE_INLINE partita_u32 packets_of(partita_i64 size_bytes) {
  return static_cast<partita_u32>(size_bytes) / packet_data_bytes;
}

/// Loads that a thread has on their way at once.
inline constexpr partita_u32 packet_depth = 2;

/// Data is loaded and stored in whole packets: what travels in them is aligned to 8 bytes on both sides.
PARTITA_DEVICE_INLINE partita_u64 load_data(const unsigned char* from, partita_u32 index) {
  return reinterpret_cast<const partita_u64*>(from)[index];
}
PARTITA_DEVICE_INLINE void store_data(unsigned char* to, partita_u32 index, PacketWords words) {
  reinterpret_cast<partita_u64*>(to)[index] = pair_of(low_half(words.first), low_half(words.second));
}

PARTITA_DEVICE_INLINE PacketWords packet_of(partita_u64 data, Epoch epoch) {
  return {pair_of(low_half(data), epoch), pair_of(high_half(data), epoch)};
}
PARTITA_DEVICE_INLINE void send_packet(unsigned char* slots, partita_u32 index, partita_u64 data, Epoch epoch) {
  store_packet(slots + packet_bytes * index, packet_of(data, epoch));
}

/// The team stores packets `begin` to `end`, this one not included, into the slots at `slots`.
PARTITA_DEVICE_INLINE void send_packets(unsigned char* slots, const unsigned char* from, partita_u32 begin,
                                        partita_u32 end, Epoch epoch, Team team) {
  for (partita_u32 i = begin + team.rank; i < end; i += team.count) send_packet(slots, i, load_data(from, i), epoch);
}

PARTITA_DEVICE_INLINE bool has_arrived(PacketWords words, Epoch epoch) {
  return high_half(words.first) == epoch && high_half(words.second) == epoch;
}

/// Whether all `packets` are there. Called by one thread; does not wait.
PARTITA_DEVICE_INLINE bool packets_have_arrived(const unsigned char* slots, partita_u32 packets, Epoch epoch) {
  for (partita_u32 i = 0; i < packets; ++i) {
    if (!has_arrived(load_packet(slots + packet_bytes * i), epoch)) return false;
  }
  return true;
}

/// What await polls.
struct PacketPoll {
  const unsigned char* slot;
  Epoch epoch;

  PARTITA_DEVICE_INLINE PacketWords load() const { return load_packet(slot); }
  PARTITA_DEVICE_INLINE bool is_there(PacketWords words) const { return has_arrived(words, epoch); }
};

/// The team waits for packets `begin` to `end`, this one not included, of the slots at `slots` and stores their data
/// into `to`, where packet 0 lies. Packet i is thread i modulo the team's, whatever `begin`. Gives 0, or the code with
/// which this thread's wait ended. No barrier at either end.
PARTITA_DEVICE_INLINE int receive_packets(unsigned char* to, const unsigned char* slots, partita_u32 begin,
                                          partita_u32 end, Epoch epoch, Team team, const Partita_Prequest& request) {
  Patience patience(request);
  const partita_u32 first = begin == 0 ? team.rank : begin + (team.rank + team.count - begin % team.count) % team.count;
  for (partita_u32 i = first; i < end; i += packet_depth * team.count) {
    const partita_u32 second = i + team.count;
    if (second >= end) {
      PacketWords words{};
      if (const int code = await(PacketPoll{slots + packet_bytes * i, epoch}, patience, &words)) return code;
      store_data(to, i, words);
      break;
    }
    for (;;) {
      const PacketWords held[packet_depth] = {load_packet(slots + packet_bytes * i),
                                              load_packet(slots + packet_bytes * second)};
      if (has_arrived(held[0], epoch) && has_arrived(held[1], epoch)) {
        store_data(to, i, held[0]);
        store_data(to, second, held[1]);
        break;
      }
      if (const int code = patience.look()) return code;
    }
  }
  return 0;
}

}  // namespace partita::device
