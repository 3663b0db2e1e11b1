// What the environment asks of Partita: the variables PARTITA_*.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/call_stream.hpp"
#include "core/epoch.hpp"
#include "core/error.hpp"

namespace partita {

/// Who moves the bytes of a partition that a kernel marks.
enum class GpuCopy : std::uint8_t {
  automatic,  ///< the kernel where it can
  kernel,     ///< the kernel, into mapped memory of the peer
  engine,     ///< the host, which the kernel asks through a flag
};

/// Whether Partita takes GPU memory in the MPI's own calls.
enum class GpuAware : std::uint8_t {
  automatic,  ///< where the MPI does not
  on,
  off,
};

/// From which size on the MPI's collectives on GPU memory go by peer memory.
struct PeerCollectiveSize {
  enum class From : std::uint8_t {
    measured,  ///< each from a size of its own (two_sided/peer_sizes.inc)
    bytes,     ///< all of them from `bytes` of a rank's larger buffer on
    never,
  };
  From from = From::measured;
  std::int64_t bytes = 0;

  bool operator==(const PeerCollectiveSize&) const = default;
};

struct Settings {
  std::string link = "auto";  ///< auto or the name of one link
  GpuCopy gpu_copy = GpuCopy::automatic;
  GpuAware gpu_aware = GpuAware::automatic;
  CallStream call_stream = CallStream::none;  ///< none, or a default stream
  PeerCollectiveSize peer_collectives;
  /// From so many bytes on, messages in GPU memory to ranks of the node are offers, of 251 bytes; none: never.
  std::optional<std::int64_t> peer_messages_from_bytes;
  int transport_partitions = 0;                 ///< wished transfers per request; 0: by size
  bool progress_thread = true;                  ///< false: only calls into Partita make progress
  double warn_after_s = 30;                     ///< a wait explains itself after this long; 0: never
  double timeout_s = 0;                         ///< a wait fails after this long; 0: never
  bool verbose = false;                         ///< tell versions, and the link of each peer
  std::string trace_file;                       ///< empty: no trace
  int nodes = 1;                                ///< each machine's ranks take themselves for so many nodes
  std::string tuning_file;                      ///< which algorithms collectives take; empty: the built-in choice
  std::int64_t slot_limit_bytes = 1024 * 1024;  ///< largest request that may travel through slots on a node
  Epoch first_epoch = no_epoch;                 ///< for tests: the epoch before the first
  std::vector<std::string> unknown;             ///< names in the environment that are likely misspelt
};

/// One variable that Partita knows.
struct SettingDescription {
  const char* name;
  const char* expected;
  const char* meaning;
};

/// All known variables, for `partita info` and for the error on a malformed one.
const std::vector<SettingDescription>& known_settings();

/// That the environment sets `name` to something else than is `expected`; lists the known settings.
Error malformed_setting(const std::string& name, const std::string& value, const std::string& expected);

/// Reads PARTITA_* from `environment` ("NAME=value" strings, null-terminated). Throws malformed_setting; but which
/// links there are, only layers above know: `link` may name none. Names of no setting are kept in `unknown`, but for
/// those that systems of modules set for every package (PARTITA_ROOT).
Settings read_settings(const char* const* environment);

/// What to say of the `unknown` names: each with the known one that is nearest to it, and that the job goes on.
std::string describe_unknown(const std::vector<std::string>& unknown);

/// Parses `text` as one of the values of the setting; what names it in the error. Shared with info keys.
int parse_transport_partitions(const std::string& what, const std::string& text);
std::optional<GpuCopy> parse_gpu_copy(const std::string& text);

}  // namespace partita
