// What the two sides of a request over link `direct` tell each other when they are matched, between GPUs.
#pragma once

#include <optional>
#include <span>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/device_route.hpp"
#include "memory/device_export.hpp"
#include "memory/host_address.hpp"

namespace partita::link::direct {

/// What the sender exports.
struct DeviceOffer {
  Driver driver{};
  bool packets = false;  ///< the buffer is aligned for them, and kernels do not compute in the receiver's memory
  Epoch first_epoch{};
  memory::HostAddress host_promise;
  memory::DeviceExport promise;  ///< for kernels; of a sender whose host opens the epochs, some word to be tried

  wire::Bytes pack() const {
    wire::Writer message;
    message.put(driver).put(packets).put(first_epoch);
    memory::put_host_address(message, host_promise);
    return memory::put_export(message, promise).take();
  }
  /// Throws Error, as DeviceAnswer's does.
  static DeviceOffer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    DeviceOffer offer;
    offer.driver = message.get_enum(Driver::device);
    offer.packets = message.get_bool();
    offer.first_epoch = message.get<Epoch>();
    offer.host_promise = memory::read_host_address(message);
    offer.promise = memory::get_export(message);
    message.end();
    return offer;
  }
};

/// What the receiver exports.
struct DeviceAnswer {
  Driver driver{};
  bool packets = false;
  memory::HostAddress host_flags;
  memory::DeviceExport flags_and_slots;
  memory::DeviceExport buffer;  ///< unless it travels in packets

  wire::Bytes pack() const {
    wire::Writer message;
    message.put(driver).put(packets);
    memory::put_host_address(message, host_flags);
    memory::put_export(message, flags_and_slots);
    if (!packets) memory::put_export(message, buffer);
    return message.take();
  }
  static DeviceAnswer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    DeviceAnswer answer;
    answer.driver = message.get_enum(Driver::device);
    answer.packets = message.get_bool();
    answer.host_flags = memory::read_host_address(message);
    answer.flags_and_slots = memory::get_export(message);
    if (!answer.packets) answer.buffer = memory::get_export(message);
    message.end();
    return answer;
  }
};

}  // namespace partita::link::direct
