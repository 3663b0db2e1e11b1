// Notices when the program gives memory back that is registered with UCX.
#pragma once

#include <ucm/api/ucm.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

namespace partita::link::ucx {

class UnmapWatch;

/// Whether some of a piece of memory was unmapped, discarded (madvise) or freed on its GPU since this was made. What
/// lies at the address afterwards is other memory.
class Watched {
 public:
  Watched(UnmapWatch& watch, std::span<const std::byte> memory);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  /// One load. Any thread that has heard of the unmapping from the program.
  bool unmapped() const { return unmapped_.load(std::memory_order_acquire); }

 private:
  friend class UnmapWatch;

  UnmapWatch& watch_;
  const std::uintptr_t begin_;
  const std::uintptr_t end_;
  std::atomic<bool> unmapped_{false};
  Watched* next_ = nullptr;  ///< in the watch's list
  Watched* previous_ = nullptr;
};

/// Asks UCX's hooks (libucm), which its own caches of registrations live on. Nothing is noticed where these are
/// switched off (UCX_MEM_EVENTS=n, UCX_MEM_MMAP_HOOK_MODE=none). Any thread.
class UnmapWatch {
 public:
  UnmapWatch();
  ~UnmapWatch();
  UnmapWatch(const UnmapWatch&) = delete;
  UnmapWatch& operator=(const UnmapWatch&) = delete;

 private:
  friend class Watched;
  static void on_event(ucm_event_type_t type, ucm_event_t* event, void* watch);
  void note_unmapped(const void* address, std::size_t size_bytes);

  std::mutex mutex_;  ///< within the program's munmap, too: whoever holds it allocates and frees nothing
  Watched* first_ = nullptr;
};

}  // namespace partita::link::ucx
