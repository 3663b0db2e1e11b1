// The life of every partition as a Chrome/Perfetto trace (PARTITA_TRACE=file).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/epoch.hpp"
#include "core/world.hpp"

namespace partita {

/// Records events in memory and writes them at the end of the job: one process row a rank, one thread row a request.
/// Switched off it costs one test of a constant flag per event. Any thread may record.
class Trace {
 public:
  enum class Event : std::uint8_t { started, marked, issued, deferred, arrived, completed };

  explicit Trace(bool enabled) : enabled_(enabled) {}

  bool enabled() const { return enabled_; }

  /// `partition` is a user or transport partition, or -1 for the whole request.
  void record(Event event, std::uint64_t request, Epoch epoch, std::int64_t partition = -1) {
    if (enabled_) append(event, request, epoch, partition);
  }
  /// Names the row of `request`.
  void name(std::uint64_t request, std::string text);

  /// Collective: gathers the events of all ranks and writes `file`, which rank 0 names. Throws Error there if it
  /// cannot be written.
  void write(const std::string& file, const World& world) const;

 private:
  struct Entry {
    std::int64_t time_ns;  ///< of the real-time clock, which the nodes of a machine share as well as they can
    std::uint64_t request;
    std::int64_t partition;
    Epoch epoch;
    Event event;
  };
  void append(Event event, std::uint64_t request, Epoch epoch, std::int64_t partition);
  std::string serialised(int rank) const;

  bool enabled_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::pair<std::uint64_t, std::string>> names_;
};

}  // namespace partita
