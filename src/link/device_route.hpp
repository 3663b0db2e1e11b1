// What kernels need to put and to see arrivals by themselves, where a link lets them. All addresses are as this rank's
// GPU uses them, and live as long as the link's half of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "core/epoch.hpp"
#include "partita/device/peer.h"

namespace partita::link {

/// Who opens the epochs of a side of a request (docs/design/device.md).
enum class Driver : std::uint8_t { host, device };

struct DeviceSendRoute {
  std::byte* remote = nullptr;             ///< the receive buffer, or its packet slots
  bool packets = false;                    ///< it is the slots
  Epoch* arrival_device = nullptr;         ///< one a transport partition, in the receiver's GPU
  Epoch* arrival_host = nullptr;           ///< the same in the receiver's host memory; null where nobody reads them
  const std::uint64_t* promise = nullptr;  ///< low half: the receiver's newest epoch, high half: this side's
  Partita_Peer peer{};                     ///< the receiver's window
};

struct DeviceRecvRoute {
  std::byte* slots = nullptr;             ///< of packets, in this GPU; null: the bytes land in the buffer
  const Epoch* arrival_device = nullptr;  ///< one a transport partition, in this GPU
  Epoch* credit = nullptr;                ///< where the sender looks for this side's newest epoch
  Partita_Peer peer{};                    ///< the sender's window
};

/// The route of either side. None: the host moves what kernels mark, and tells them what has arrived.
using DeviceRoute = std::variant<std::optional<DeviceSendRoute>, std::optional<DeviceRecvRoute>>;

}  // namespace partita::link
