// What the two sides of a request over link `direct` tell each other when they are matched, between GPUs.
#pragma once

#include <span>

#include "core/epoch.hpp"
#include "core/wire.hpp"
#include "link/device_route.hpp"
#include "memory/window_name.hpp"

namespace partita::link::direct {

/// The sender's part.
struct DeviceOffer {
  Driver driver{};
  bool packets = false;  ///< the buffer is aligned for them, and kernels do not compute in the receiver's memory
  Epoch first_epoch{};
  /// The promise, as host words and as device words; of a sender whose host opens the epochs the device words are any,
  /// for the receiver to try whether it can map them. The buffer, where streams shall move it and it can be mapped.
  memory::WindowName window;

  wire::Bytes pack() const {
    wire::Writer message;
    message.put(driver).put(packets).put(first_epoch);
    return memory::put_window(message, window).take();
  }
  /// Throws Error, as DeviceAnswer's does.
  static DeviceOffer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    DeviceOffer offer;
    offer.driver = message.get_enum(Driver::stream);
    offer.packets = message.get_bool();
    offer.first_epoch = message.get<Epoch>();
    offer.window = memory::get_window(message);
    message.end();
    if (!offer.window.host_words || !offer.window.device_words) throw wire::malformed("names no promise");
    return offer;
  }
};

/// The receiver's part.
struct DeviceAnswer {
  Driver driver{};
  bool packets = false;
  /// Device words: the flags, and behind them the slots of packets. Host words: the flags, unless no host reads them.
  /// The buffer, unless it travels in packets.
  memory::WindowName window;

  wire::Bytes pack() const {
    wire::Writer message;
    message.put(driver).put(packets);
    return memory::put_window(message, window).take();
  }
  static DeviceAnswer unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    DeviceAnswer answer;
    answer.driver = message.get_enum(Driver::stream);
    answer.packets = message.get_bool();
    answer.window = memory::get_window(message);
    message.end();
    const bool shows_flags =
        answer.window.device_words && answer.window.host_words.has_value() == (answer.driver != Driver::device);
    if (!shows_flags || answer.window.buffer.has_value() == answer.packets) {
      throw wire::malformed("names other memory than a receiver's flags and buffer");
    }
    return answer;
  }
};

}  // namespace partita::link::direct
