// Messages in GPU memory, as the MPI takes them: their bytes, packed, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/layout.hpp"
#include "memory/device.hpp"
#include "memory/gpu_layout.hpp"
#include "memory/host_blocks.hpp"

namespace partita {

/// What the images of messages of one GPU share: a stream of Partita's, events, and the datatypes with gaps that were
/// met last. Any thread.
class GpuLane {
 public:
  GpuLane(memory::DeviceMemory& device_memory, int device);
  GpuLane(const GpuLane&) = delete;
  GpuLane& operator=(const GpuLane&) = delete;

  /// Asks the stream for what `ask(stream)` wants, and has `event` stand for it. Does not block. Throws Error.
  template <class Ask>
  void ask(memory::Event& event, Ask ask) {
    const std::lock_guard lock(mutex_);
    ask(*stream_);
    stream_->record(event);
  }
  std::unique_ptr<memory::Event> take_event();
  void give_back(std::unique_ptr<memory::Event> event) noexcept;
  /// Of a layout with gaps.
  std::shared_ptr<const memory::GpuLayout> on_gpu(const Layout& layout);

 private:
  struct Known {
    std::vector<Layout::Run> runs;
    std::int64_t extent_bytes;
    std::shared_ptr<const memory::GpuLayout> on_gpu;
  };

  memory::DeviceMemory& device_memory_;
  const int device_;
  std::mutex mutex_;
  const std::unique_ptr<memory::Stream> stream_;
  std::vector<std::unique_ptr<memory::Event>> events_;  ///< that nobody uses; has room for all that were made
  std::size_t events_made_ = 0;
  std::vector<Known> layouts_;  ///< the newest last
};

/// Makes what images need, on first use. Any thread.
class GpuLanes {
 public:
  GpuLanes(memory::HostBlocks& host_blocks, memory::DeviceMemory& device_memory, int spare_cores)
      : host_blocks_(host_blocks), device_memory_(device_memory), spare_cores_(spare_cores) {}

  /// Throws Error.
  GpuLane& of(int device);
  memory::HostBlocks& host_blocks() { return host_blocks_; }
  memory::DeviceMemory& device_memory() { return device_memory_; }
  int spare_cores() const { return spare_cores_; }

 private:
  memory::HostBlocks& host_blocks_;
  memory::DeviceMemory& device_memory_;
  const int spare_cores_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<GpuLane>> lanes_;
};

/// The bytes of `count` elements at `user`, in the memory of a GPU, without gaps. One thread at a time.
class HostImage {
 public:
  /// Throws Error.
  HostImage(GpuLanes& lanes, int device, std::byte* user, std::int64_t count, Layout layout);
  /// No copy is under way any more. Blocks until then, not behind any kernel of the program.
  ~HostImage();
  HostImage(const HostImage&) = delete;
  HostImage& operator=(const HostImage&) = delete;

  std::byte* bytes() const { return bytes_; }
  std::int64_t size_bytes() const { return count_ * layout_.size_bytes(); }
  const Layout& layout() const { return layout_; }

  /// Takes the bytes from the GPU; they are here on return. Not behind any kernel of the program. Throws Error.
  void fetch();
  /// Begins to put the first `size_bytes` to their places on the GPU. Does not block. Throws Error.
  void begin_delivery(std::int64_t size_bytes);
  /// Whether what was begun has ended: then the bytes are visible to the calling thread, and to kernels that it
  /// launches. Does not block. Throws Error where the GPU works no longer.
  bool settled();
  /// The MPI may read or write the bytes until its own end: they stay.
  void leave_to_the_mpi() noexcept { is_the_mpis_ = true; }

 private:
  void wait_until_settled();

  GpuLanes& lanes_;
  GpuLane& lane_;
  std::byte* const user_;
  const std::int64_t count_;
  const Layout layout_;
  std::shared_ptr<const memory::GpuLayout> on_gpu_;  ///< null without gaps
  std::byte* const bytes_;
  std::byte* bytes_on_gpu_ = nullptr;  ///< the same, as the GPU addresses it
  std::unique_ptr<memory::Event> event_;
  bool is_the_mpis_ = false;
};

}  // namespace partita
