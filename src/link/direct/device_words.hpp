// What the two sides of a request over link `direct` between GPUs read and write of each other, and what travels there
// in packets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "link/device_route.hpp"
#include "link/link.hpp"
#include "memory/messages.hpp"
#include "partita/device/impl/words.hpp"

namespace partita::link::direct {

using FlagWord = std::atomic_ref<Epoch>;

/// What a kernel compares with: the receiver's newest epoch, and behind it the sender's.
struct Promise {
  Epoch credit;
  Epoch started;
};
static_assert(sizeof(Promise) == sizeof(std::uint64_t));

constexpr std::size_t bytes_of_line = 128;

/// The flags of a receiver, in its host memory and in its GPU: one a transport partition and, where a host may put
/// several together, the front behind them, by which one word tells of any number of the first ones.
struct ArrivalFlags {
  ArrivalFlags() = default;
  /// `sender`: who opens the epochs there. Kernels put all of a device-driven send.
  ArrivalFlags(Driver sender, const Plan& plan)
      : has_front(sender != Driver::device && plan.transport_partitions() > 1), count(plan.transport_partitions()) {}

  std::int64_t words() const { return has_front ? device::words_with_front(count) : count; }
  /// The front behind `flags`, which are these.
  std::uint64_t* front(Epoch* flags) const {
    return reinterpret_cast<std::uint64_t*>(device::front_behind(flags, count));
  }
  /// They fill whole lines.
  std::size_t bytes() const {
    return (static_cast<std::size_t>(words()) * sizeof(Epoch) + bytes_of_line - 1) / bytes_of_line * bytes_of_line;
  }

  bool has_front = false;
  std::int64_t count = 0;  ///< of transport partitions
};

/// Where the words of streams lie in the receiver's device words: such a side has no packets.
inline memory::ReceiverWords* stream_words(std::byte* device_words, const ArrivalFlags& flags) {
  return reinterpret_cast<memory::ReceiverWords*>(device_words + flags.bytes());
}

/// A packet carries 8 of its 16 bytes.
constexpr std::int64_t packet_payload_bytes = 8;

inline bool aligned_for_packets(const Endpoint& endpoint) {
  return reinterpret_cast<std::uintptr_t>(endpoint.data) % packet_payload_bytes == 0;
}

}  // namespace partita::link::direct
