// Copies and reductions of a collective in GPU memory, which end by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "collective/gpu_reduction.hpp"
#include "collective/spot.hpp"
#include "core/epoch.hpp"
#include "memory/device.hpp"
#include "memory/host_blocks.hpp"

namespace partita::collective {

/// What is begun runs in that order on a stream of Partita's own, so it may read what was begun before. A word of host
/// memory tells how far the stream has come; nothing but close() waits for it. Any thread, but for open() and close().
class GpuWork {
 public:
  /// A number of what was begun; compared by reached().
  using Ticket = Epoch;

  /// On GPU `device`. Moves whose places both have gaps are of up to `between_bytes`. Throws Error.
  GpuWork(memory::HostBlocks& host_blocks, memory::DeviceMemory& device_memory, int device,
          const std::optional<GpuReduction>& reduction, std::int64_t between_bytes);
  ~GpuWork();
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;

  int device() const { return device_; }
  /// Begins a copy. Never waits for the GPU. Throws Error where that works no longer.
  Ticket copy(const Move& move);
  /// to = from ⊕ to, of whole elements; likewise.
  Ticket reduce(const std::byte* from, std::byte* to, std::int64_t bytes);
  /// What was begun before tells of its end from now on. After each begin, at some time.
  void flush();
  /// Whether what has this number has ended: the host, kernels that it launches, and links see the bytes.
  bool ended(Ticket ticket) const;
  /// Throws Error where the GPU works no longer, so that what has begun never ends. Does not ask each time.
  void check();
  /// Makes this GPU the calling thread's, for links that ask.
  void enter() const { device_memory_.make_current(device_); }

  /// What is begun from now on is done.
  void open();
  /// Nothing begins any more, and nothing is under way. Blocks until then, not behind any kernel of the program.
  void close() noexcept;

 private:
  template <class Begin>
  Ticket begin(Begin begin);

  memory::HostBlocks& host_blocks_;
  memory::DeviceMemory& device_memory_;
  const int device_;
  const std::optional<GpuReduction> reduction_;
  const std::size_t between_bytes_;
  std::byte* between_ = nullptr;  ///< where packed bytes lie between two places with gaps; null: no move has two
  Epoch* const word_;             ///< the number of what has ended last
  Epoch* word_on_gpu_ = nullptr;
  std::mutex mutex_;  ///< of the ones below
  std::unique_ptr<memory::Stream> stream_;
  Ticket next_ = 1;
  bool has_begun_ = false;  ///< something whose end is not told yet
  bool is_open_ = false;
  unsigned looks_ = 0;
};

}  // namespace partita::collective
