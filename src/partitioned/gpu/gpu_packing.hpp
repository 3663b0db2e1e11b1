// A buffer in GPU memory whose datatype has gaps: packed and unpacked by kernels of the library's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/active_steps.hpp"
#include "core/epoch.hpp"
#include "memory/blocks.hpp"
#include "memory/gpu_layout.hpp"
#include "partitioned/message.hpp"
#include "transfer/services.hpp"

namespace partita {

/// Partitions' way: begin → a kernel on a stream of Partita's own, beside the program's → a step of the progress engine
/// finds that it has ended, and tells the owner. No call waits for the GPU.
class GpuPacking final : private ActiveStep {
 public:
  class Owner {
   public:
    /// The bytes of these lie where they are to, for the calling thread, for links, for kernels launched from now on
    /// and for those that see what the GPU is asked to write from now on. In a step of the progress engine. May throw
    /// Error.
    virtual void moved(link::Range partitions) = 0;
    /// Within a catch: what was begun is moved by nobody any more.
    virtual void could_not_move() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  /// `message` is in GPU memory and has gaps. Throws Error.
  GpuPacking(const Services& services, Owner& owner, const Message& message);
  /// Behind close().
  ~GpuPacking();

  /// Begins to pack partitions of the buffer to their places in `packed`, which has room for all, or, of a receive, to
  /// unpack them from there: of `total_bytes` packed bytes, where the message is shorter than the buffer. Any thread,
  /// each partition once an epoch. Throws Error where the GPU works no longer.
  void begin(link::Range partitions, std::byte* packed, std::int64_t total_bytes);
  /// Whether the owner has heard of all that was begun, and no call to it goes on. Any thread.
  bool all_told() const { return told_.load(std::memory_order_acquire) == begins_.load(std::memory_order_acquire); }
  /// Nothing more begins or is told, and nothing is under way. Blocks until then, not behind any kernel of the
  /// program. No step of the progress engine runs meanwhile.
  void close() noexcept;

 private:
  Outcome step() noexcept override;
  Outcome tell_of_moved();
  void check_stream();

  Progress& progress_;
  Owner& owner_;
  const Message& message_;
  const memory::GpuLayout layout_;
  memory::HostBlocks& host_blocks_;
  Epoch* const ended_;  ///< so many have ended, modulo 2^32; the stream writes it
  Epoch* ended_on_gpu_ = nullptr;
  std::unique_ptr<memory::Stream> stream_;
  std::mutex mutex_;  ///< of the stream, and the next two
  unsigned looks_ = 0;
  bool is_closed_ = false;

  std::vector<link::Range> begun_;        ///< a ring with room for an epoch
  std::atomic<std::uint64_t> begins_{0};  ///< so many ever
  std::atomic<std::uint64_t> told_{0};    ///< so many of them the owner has heard of; the steps'
};

}  // namespace partita
