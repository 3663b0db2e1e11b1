// How a window of memory is named in messages.
#pragma once

#include <optional>

#include "core/wire.hpp"
#include "memory/device_export.hpp"
#include "memory/host_address.hpp"

namespace partita::memory {

/// A window as it travels in messages; what it leaves out it does not show.
struct WindowName {
  std::optional<DeviceExport> buffer;
  std::optional<DeviceExport> device_words;
  std::optional<HostAddress> host_words;
};
wire::Writer& put_window(wire::Writer& message, const WindowName& name);
/// Throws Error.
WindowName get_window(wire::Reader& message);

}  // namespace partita::memory
