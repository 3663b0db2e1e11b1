// Copies on one GPU that tell when they have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/epoch.hpp"
#include "memory/device.hpp"
#include "memory/host_blocks.hpp"

namespace partita::memory {

/// Fills a number of places, each once an epoch. Copies are made one after the other, beside the program's own streams;
/// a word of host memory for each place tells the epoch in which it was filled last. One thread at a time, but for
/// filled().
class Copies {
 public:
  /// Between the memory of GPU `device` and host memory that it addresses. Throws Error.
  Copies(HostBlocks& blocks, DeviceMemory& memory, int device, std::int32_t places);
  /// Nothing is under way any more.
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Begins a copy that fills the places [first, end) in `epoch`. Does not block. Throws Error where the GPU works no
  /// longer.
  void begin(std::int64_t first, std::int64_t end, Epoch epoch, void* to, const void* from, std::size_t size_bytes);
  /// Whether the copy has ended that fills `place` in `epoch`: its bytes are visible then to the calling thread and to
  /// kernels that it launches. Any thread.
  bool filled(std::int64_t place, Epoch epoch) const;
  /// Throws Error where a copy has failed, whose end never comes. Takes a microsecond to ask, so it does not ask each
  /// time.
  void check();
  /// Blocks until none is under way; not behind any kernel of the program.
  void drain() noexcept;

 private:
  Epoch* word(std::int64_t place) const;

  HostBlocks& blocks_;
  std::size_t size_bytes_;
  std::byte* words_;
  Epoch* words_on_gpu_ = nullptr;
  std::unique_ptr<CopyQueue> queue_;
  std::vector<WordWrite> writes_;  ///< of one copy
  unsigned looks_ = 0;
};

}  // namespace partita::memory
