// What kernels need to put and to see arrivals by themselves, where a link lets them. All addresses are as this rank's
// GPU uses them, and live as long as the link's half of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "core/epoch.hpp"
#include "memory/messages.hpp"
#include "partita/device/peer.h"

namespace partita::link {

/// Who opens the epochs of a side of a request (docs/design/device.md).
enum class Driver : std::uint8_t {
  host,
  device,  ///< kernels of the program
  stream,  ///< the library's, in a stream, where both sides are so and the link has a StreamRoute; else the host
};

/// What a stream needs to move messages by itself: the words of both sides, and both buffers.
struct StreamRoute {
  memory::SenderWords* sender = nullptr;
  memory::ReceiverWords* receiver = nullptr;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
};

struct DeviceSendRoute {
  std::byte* remote = nullptr;             ///< the receive buffer, or its packet slots
  bool packets = false;                    ///< it is the slots
  Epoch* arrival_device = nullptr;         ///< one a transport partition, in the receiver's GPU
  Epoch* arrival_host = nullptr;           ///< the same in the receiver's host memory; null where nobody reads them
  const std::uint64_t* promise = nullptr;  ///< low half: the receiver's newest epoch, high half: this side's
  const std::uint64_t* host_promise = nullptr;  ///< the promise in host memory, where the receiver's host keeps it, too
  Partita_Peer peer{};                          ///< the receiver's window
  std::optional<StreamRoute> stream{};          ///< where both sides are Driver::stream
};

struct DeviceRecvRoute {
  std::byte* slots = nullptr;             ///< of packets, in this GPU; null: the bytes land in the buffer
  const Epoch* arrival_device = nullptr;  ///< one a transport partition, in this GPU; behind them, ...
  bool has_front = false;                 ///< ... whether the front lies there, which counts the first ones
  Epoch* credit = nullptr;                ///< where the sender looks for this side's newest epoch
  Partita_Peer peer{};                    ///< the sender's window
  std::optional<StreamRoute> stream{};    ///< where both sides are Driver::stream
};

/// The route of either side. None: the host moves what kernels mark, and tells them what has arrived.
using DeviceRoute = std::variant<std::optional<DeviceSendRoute>, std::optional<DeviceRecvRoute>>;

}  // namespace partita::link
