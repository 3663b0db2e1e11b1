// What a rank tells another one of its buffers, for kernels of both to read and write them.
#pragma once

#include <span>
#include <string>

#include "core/wire.hpp"
#include "memory/device_export.hpp"

namespace partita::collective {

/// All ranks hear the same from one of them, but for the names.
struct ShownBuffers {
  std::string why_not;  ///< a clause; empty where both are shown
  memory::DeviceExport sent;
  memory::DeviceExport received;

  bool shown() const { return why_not.empty(); }

  wire::Bytes pack() const {
    wire::Writer message;
    message.put_string(why_not);
    if (!shown()) return message.take();
    memory::put_export(message, sent);
    return memory::put_export(message, received).take();
  }
  /// Throws Error.
  static ShownBuffers unpack(std::span<const std::byte> bytes) {
    wire::Reader message(bytes);
    ShownBuffers buffers;
    buffers.why_not = message.get_string();
    if (buffers.shown()) {
      buffers.sent = memory::get_export(message);
      buffers.received = memory::get_export(message);
    }
    message.end();
    return buffers;
  }
};

}  // namespace partita::collective
