// What the two sides of a request tell each other when they are matched.
#pragma once

#include <cstdint>
#include <span>

#include "core/wire.hpp"
#include "link/ucx/library.hpp"

namespace partita::link::ucx {

/// Up to here one message carries the bytes and their flag: a put, a flush and a put take two turns more, and a message
/// is copied once more at the receiver. Not tuned by measurement yet.
inline constexpr std::int64_t eager_limit_bytes = 8192;

/// Sender to receiver. The version stands first, so that any other version can read it.
struct Offer {
  Version version;
  wire::Bytes worker_address;
  std::uint64_t readiness = 0;  ///< where the receiver writes the epoch that it has opened
  wire::Bytes readiness_key;
  std::uint64_t sink = 0;  ///< number that a message with a new data_key carries

  wire::Bytes pack() const {
    return wire::Writer()
        .put(version)
        .put_bytes(worker_address)
        .put(readiness)
        .put_bytes(readiness_key)
        .put(sink)
        .take();
  }
  static Version version_of(std::span<const std::byte> bytes) { return wire::Reader(bytes).get<Version>(); }
  static Offer unpack(std::span<const std::byte> bytes) {
    wire::Reader reader(bytes);
    Offer offer;
    offer.version = reader.get<Version>();
    offer.worker_address = reader.get_bytes();
    offer.readiness = reader.get<std::uint64_t>();
    offer.readiness_key = reader.get_bytes();
    offer.sink = reader.get<std::uint64_t>();
    reader.end();
    return offer;
  }
};

/// Receiver to sender.
struct Answer {
  wire::Bytes worker_address;
  std::uint64_t sink = 0;        ///< number that eager messages carry
  std::int64_t eager_limit = 0;  ///< bytes; transport partitions up to this size come as eager messages; -1: none
  std::uint64_t data = 0;
  wire::Bytes data_key;     ///< empty where nothing is put
  std::uint64_t flags = 0;  ///< one word per transport partition
  wire::Bytes flags_key;

  wire::Bytes pack() const {
    return wire::Writer()
        .put_bytes(worker_address)
        .put(sink)
        .put(eager_limit)
        .put(data)
        .put_bytes(data_key)
        .put(flags)
        .put_bytes(flags_key)
        .take();
  }
  static Answer unpack(std::span<const std::byte> bytes) {
    wire::Reader reader(bytes);
    Answer answer;
    answer.worker_address = reader.get_bytes();
    answer.sink = reader.get<std::uint64_t>();
    answer.eager_limit = reader.get<std::int64_t>();
    answer.data = reader.get<std::uint64_t>();
    answer.data_key = reader.get_bytes();
    answer.flags = reader.get<std::uint64_t>();
    answer.flags_key = reader.get_bytes();
    if (answer.eager_limit < -1) throw wire::malformed("names {} bytes as its eager limit", answer.eager_limit);
    reader.end();
    return answer;
  }
};

}  // namespace partita::link::ucx
