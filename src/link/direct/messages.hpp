// What the two sides of a request over link `direct` tell each other when they are matched, between hosts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/direct/remote_process.hpp"
#include "memory/host_address.hpp"

namespace partita::link::direct {

/// How the bytes get across: the sender's thread moves them.
enum class Way : std::uint8_t {
  slots,        ///< into slots behind the flags; the receiver copies out
  mapped,       ///< into the receive buffer, which this process maps or owns
  remote_copy,  ///< into the receive buffer, by the kernel
  shared_copy,  ///< the same, and the receiver's threads, while they look, copy what the sender's has not come to
};

inline ReachProbe read_probe(wire::Reader& message) {
  ReachProbe probe;
  probe.pid = message.get<pid_t>();
  probe.address = message.get<std::uint64_t>();
  probe.expected = message.get<std::uint64_t>();
  if (probe.pid <= 0) throw wire::malformed("holds {} where a process id is expected", probe.pid);
  return probe;
}

/// What the sender exports.
struct Offer {
  memory::HostAddress words;  ///< what of its memory the receiver writes
  Epoch first_epoch{};
  ReachProbe probe;
  std::int32_t held_partitions = 0;  ///< of the HoldBoard behind the words; 0: there is none
  std::uint64_t data = 0;            ///< the address of the packed bytes in its process

  wire::Bytes pack() const {
    wire::Writer message;
    memory::put_host_address(message, words).put(first_epoch);
    message.put(probe.pid).put(probe.address).put(probe.expected);
    return message.put(held_partitions).put(data).take();
  }
  /// Throws Error, as Answer's does.
  static Offer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    Offer offer;
    offer.words = memory::read_host_address(message);
    offer.first_epoch = message.get<Epoch>();
    offer.probe = read_probe(message);
    offer.held_partitions = message.get<std::int32_t>();
    if (offer.held_partitions < 0) throw wire::malformed("holds {} partitions", offer.held_partitions);
    offer.data = message.get<std::uint64_t>();
    message.end();
    return offer;
  }
};

/// What the receiver exports.
struct Answer {
  Way way{};
  ReachProbe probe;
  std::uint64_t plain_address = 0;  ///< the receive buffer in its own process: remote copies, and a rank to itself
  memory::HostAddress data;         ///< the receive buffer, to be mapped
  memory::HostAddress flags;
  bool fetches = false;  ///< the receiver takes what waits at the sender for too long

  wire::Bytes pack() const {
    wire::Writer message;
    message.put(way).put(probe.pid).put(probe.address).put(probe.expected).put(plain_address);
    memory::put_host_address(message, data);
    return memory::put_host_address(message, flags).put(fetches).take();
  }
  static Answer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    Answer answer;
    answer.way = message.get_enum(Way::shared_copy);
    answer.probe = read_probe(message);
    answer.plain_address = message.get<std::uint64_t>();
    answer.data = memory::read_host_address(message);
    answer.flags = memory::read_host_address(message);
    answer.fetches = message.get_bool();
    message.end();
    return answer;
  }
};

}  // namespace partita::link::direct
