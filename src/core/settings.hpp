// What the environment asks of Partita: the variables PARTITA_*.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/epoch.hpp"

namespace partita {

/// Who moves the bytes of a partition that a kernel marks.
enum class GpuCopy : std::uint8_t {
  automatic,  ///< the kernel where it can
  kernel,     ///< the kernel, into mapped memory of the peer
  engine,     ///< the host, which the kernel asks through a flag
};

struct Settings {
  std::string link = "auto";  ///< auto or the name of one link
  GpuCopy gpu_copy = GpuCopy::automatic;
  int transport_partitions = 0;                 ///< wished transfers per request; 0: by size
  bool progress_thread = true;                  ///< false: only calls into Partita make progress
  double warn_after_s = 30;                     ///< a wait explains itself after this long; 0: never
  double timeout_s = 0;                         ///< a wait fails after this long; 0: never
  std::string trace_file;                       ///< empty: no trace
  std::int64_t slot_limit_bytes = 1024 * 1024;  ///< largest request that may travel through slots on a node
  Epoch first_epoch = no_epoch;                 ///< for tests: the epoch before the first
};

/// One variable that Partita knows.
struct SettingDescription {
  const char* name;
  const char* expected;
  const char* meaning;
};

/// All known variables, for `partita info` and for the error on an unknown one.
const std::vector<SettingDescription>& known_settings();

/// Reads PARTITA_* from `environment` ("NAME=value" strings, null-terminated). Throws Error on an unknown name or a
/// malformed value.
Settings read_settings(const char* const* environment);

/// Parses `text` as one of the values of the setting; what names it in the error. Shared with info keys.
int parse_transport_partitions(const std::string& what, const std::string& text);
std::optional<GpuCopy> parse_gpu_copy(const std::string& text);

}  // namespace partita
