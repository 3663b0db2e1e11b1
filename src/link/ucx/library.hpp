// Which UCX this process has loaded.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace partita::link::ucx {

/// Two UCXs talk to each other for certain only if these are equal (1.13 and 1.22 do not).
struct Version {
  std::uint32_t major_number = 0;
  std::uint32_t minor_number = 0;
  auto operator<=>(const Version&) const = default;
};

/// All that is called here exists since this version.
inline constexpr Version oldest_version{1, 13};

/// The version of the library that is loaded. It may be another one than that of the headers: an MPI may bring its own.
Version loaded_version();
std::string to_string(Version version);

/// Why the loaded UCX cannot be used, or empty: it is too old, or its libraries come from several installations.
std::string fault_of_loaded_library();

}  // namespace partita::link::ucx
