#include "memory/window_name.hpp"

namespace partita::memory {

wire::Writer& put_window(wire::Writer& message, const WindowName& name) {
  message.put(name.buffer.has_value()).put(name.device_words.has_value()).put(name.host_words.has_value());
  if (name.buffer) put_export(message, *name.buffer);
  if (name.device_words) put_export(message, *name.device_words);
  if (name.host_words) put_host_address(message, *name.host_words);
  return message;
}

WindowName get_window(wire::Reader& message) {
  WindowName name;
  const bool has_buffer = message.get_bool();
  const bool has_device_words = message.get_bool();
  const bool has_host_words = message.get_bool();
  if (has_buffer) name.buffer = get_export(message);
  if (has_device_words) name.device_words = get_export(message);
  if (has_host_words) name.host_words = read_host_address(message);
  return name;
}

}  // namespace partita::memory
