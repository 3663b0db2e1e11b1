// What kind of memory a pointer names.
#pragma once

#include <cstdint>
#include <string_view>

namespace partita::memory {

enum class Kind : std::uint8_t {
  host,           ///< any host memory of this process
  host_exported,  ///< host memory that the other ranks of the node can map (Partita_Alloc)
  device,         ///< memory of one GPU
  managed,        ///< memory that migrates between host and GPU
};

constexpr std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::host:
    case Kind::host_exported:
      return "host";
    case Kind::device:
      return "device";
    case Kind::managed:
      return "managed";
  }
  return "unknown";
}

constexpr bool is_host(Kind kind) {
  return kind == Kind::host || kind == Kind::host_exported;
}

}  // namespace partita::memory
