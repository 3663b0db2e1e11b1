// What travels in place of a message that is offered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "memory/device_export.hpp"
#include "memory/host_address.hpp"

namespace partita {

/// Drawn at random, one for the job: by this a receiver knows an offer from a program's message as long.
using OfferMark = std::array<std::uint64_t, 2>;

/// An offer of `size_bytes` bytes without gaps. Small enough for any receive of a message that is offered.
struct OfferRecord {
  static constexpr std::size_t bytes = 251;
  using Bytes = std::array<std::byte, bytes>;

  std::uint64_t number = 0;  ///< among the sender's
  int sender = -1;           ///< its world rank
  std::int64_t size_bytes = 0;
  memory::HostAddress slot;                         ///< where the offer's state lies, to the receiver
  std::optional<memory::DevicePiece> gpu_memory{};  ///< by one IPC handle; none: the sender can only stage

  Bytes written(const OfferMark& mark) const;
  /// Whether so many bytes of a message are an offer.
  static bool is_one(std::span<const std::byte> message, const OfferMark& mark);
  /// `message` is one. Throws Error where it holds what no rank writes.
  static OfferRecord read(std::span<const std::byte> message);
};

}  // namespace partita
