#include "core/call_stream.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace partita {

std::optional<CallStream> parse_default_stream(const std::string& text) {
  if (text == "none") return CallStream::none;
  if (text == "legacy") return CallStream::legacy;
  if (text == "per-thread") return CallStream::per_thread;
  return std::nullopt;
}

/// A null handle is CUDA's name for either default stream, as the program was compiled.
std::optional<CallStream> parse_call_stream(const std::string& text) {
  constexpr std::string_view prefix = "0x";
  if (!text.starts_with(prefix)) return parse_default_stream(text);
  std::uintptr_t handle = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + prefix.size(), end, handle, 16);
  const auto stream = static_cast<CallStream>(handle);
  if (error != std::errc{} || last != end || stream == CallStream::none || stream == CallStream::of_job)
    return std::nullopt;
  return stream;
}

std::string text_of(CallStream stream) {
  switch (stream) {
    case CallStream::none:
      return "none";
    case CallStream::legacy:
      return "legacy";
    case CallStream::per_thread:
      return "per-thread";
    default:
      return fmt::format("{:#x}", static_cast<std::uintptr_t>(stream));
  }
}

}  // namespace partita
