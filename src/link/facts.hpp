// What is so of a half of a request as long as that is connected: told once, as data.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/hold_board.hpp"
#include "link/host_flags.hpp"

namespace partita::link {

/// What a sender tells when it is connected.
struct SenderFacts {
  /// An open epoch needs host steps of this process (Link::progress) all along.
  bool needs_progress = false;
  /// Kernels can put by themselves: Sender::device_route.
  bool has_device_route = false;
  /// Where partitions wait that the receiver fetches if they wait too long; none where it does not.
  std::optional<HoldBoard> hold_board{};
};

/// What a receiver tells when it answers.
struct ReceiverFacts {
  /// As of a sender.
  bool needs_progress = false;
  /// Kernels can see arrivals by themselves: Receiver::device_route.
  bool has_device_route = false;
  /// The flags in host memory that tell of arrivals, where a look at them makes all the progress that there is to make:
  /// who polls looks there first, without a call. As long there as the half.
  std::optional<HostFlags> host_flags{};
  /// Where the data of even and of odd epochs land, packed: the endpoint's data, or memory of the link's own from which
  /// the caller copies before it opens the next epoch. As long there as the half.
  std::array<std::byte*, 2> landings{};

  std::byte* landing(Epoch epoch) const { return landings[epoch % 2]; }
};

/// What a receiver answers.
struct ReceiverAnswer {
  wire::Bytes bytes;    ///< what the sender must know to put
  ReceiverFacts facts;  ///< of this half
  std::string way;      ///< how the bytes move; a clause for `partita info`
};

}  // namespace partita::link
