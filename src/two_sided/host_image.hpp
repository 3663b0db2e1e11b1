// Messages in GPU memory, as the MPI takes them: their bytes, packed, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/call_stream.hpp"
#include "core/layout.hpp"
#include "core/progress.hpp"
#include "memory/device.hpp"
#include "memory/gpu_layout.hpp"
#include "memory/host_blocks.hpp"

namespace partita {

/// What the images of messages of one GPU share: streams of Partita's, events, and the datatypes with gaps that were
/// met last. Any thread.
class GpuLane {
 public:
  GpuLane(memory::DeviceMemory& device_memory, int device);
  GpuLane(const GpuLane&) = delete;
  GpuLane& operator=(const GpuLane&) = delete;

  /// Copies, and kernels that pack, which may have to wait for room beside the program's kernels: each in their order.
  enum class Work { copies, kernels };
  /// Asks a stream for what `ask(stream)` wants, and has `event` stand for it. Does not block. Throws Error.
  template <class Ask>
  void ask(Work work, memory::Event& event, const Ask& ask) {
    Line& line = work == Work::copies ? copies_ : kernels_;
    const std::lock_guard lock(line.mutex);
    ask(*line.stream);
    line.stream->record(event);
  }
  std::unique_ptr<memory::Event> take_event();
  void give_back(std::unique_ptr<memory::Event> event) noexcept;
  /// `layout` has gaps. One that is new is copied to the GPU: not behind a kernel that fills it.
  std::shared_ptr<const memory::GpuLayout> on_gpu(const Layout& layout);

 private:
  struct Line {
    std::mutex mutex;
    std::unique_ptr<memory::Stream> stream;
  };
  struct Known {
    std::vector<Layout::Run> runs;
    std::int64_t extent_bytes;
    std::shared_ptr<const memory::GpuLayout> on_gpu;
  };
  std::shared_ptr<const memory::GpuLayout> known(const Layout& layout) const;

  memory::DeviceMemory& device_memory_;
  const int device_;
  Line copies_;
  Line kernels_;
  std::mutex mutex_;                                    ///< of the next ones
  std::vector<std::unique_ptr<memory::Event>> events_;  ///< that nobody uses; has room for all that were made
  std::size_t events_made_ = 0;
  std::vector<Known> layouts_;  ///< the newest last
};

/// Makes what images need, on first use, and keeps it. Any thread.
class GpuLanes {
 public:
  GpuLanes(memory::HostBlocks& host_blocks, memory::DeviceMemory& device_memory, Progress& progress, int spare_cores,
           CallStream stream_of_job)
      : host_blocks_(host_blocks),
        device_memory_(device_memory),
        progress_(progress),
        spare_cores_(spare_cores),
        stream_of_job_(stream_of_job) {}
  ~GpuLanes();
  GpuLanes(const GpuLanes&) = delete;
  GpuLanes& operator=(const GpuLanes&) = delete;

  /// Throws Error.
  GpuLane& of(int device);
  memory::DeviceMemory& device_memory() { return device_memory_; }
  /// Behind which of the program's streams calls come, unless their communicator has one of its own.
  CallStream stream_of_job() const { return stream_of_job_; }

  /// Memory for at least so many bytes, which are not cleared: a power of two, of which some stay for images to come.
  /// Throws Error (no_mem).
  std::byte* take_memory(std::int64_t size_bytes);
  void give_back(std::byte* memory, std::int64_t size_bytes) noexcept;
  /// Somebody else may still use it: it stays to the end of the process.
  void leave(std::byte* memory) noexcept { host_blocks_.leave_block(memory); }

  /// What is said of a wait that takes long: who waits, and what for.
  struct LongWait {
    const char* who;
    const char* why;
    bool may_be_long = false;  ///< so that steps are taken whether or not any are wanted: the MPI may want some
  };
  /// Returns once `event` has passed. Makes progress, and says so where that takes long. Throws Error.
  void await(memory::Event& event, const LongWait& told = of_copies) const;
  /// Gives `event` back to `lane` once what it stands for has ended, or the GPU works no longer. Blocks until then.
  void end(GpuLane& lane, std::unique_ptr<memory::Event> event) const noexcept;

 private:
  static const LongWait of_copies;

  memory::HostBlocks& host_blocks_;
  memory::DeviceMemory& device_memory_;
  Progress& progress_;
  const int spare_cores_;
  const CallStream stream_of_job_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<GpuLane>> lanes_;
  struct Kept {
    std::vector<std::byte*> memory;  ///< that nobody uses; has room for all that was taken
    std::size_t taken = 0;
  };
  std::map<std::size_t, Kept> kept_;  ///< by size
  std::size_t kept_bytes_ = 0;
};

/// The bytes of `count` elements at `user`, in the memory of a GPU, without gaps. One thread at a time.
class HostImage {
 public:
  /// Throws Error: class `buffer` where the elements do not all lie there.
  HostImage(GpuLanes& lanes, int device, std::byte* user, std::int64_t count, Layout layout);
  /// No copy is under way any more. Blocks until then.
  ~HostImage();
  HostImage(const HostImage&) = delete;
  HostImage& operator=(const HostImage&) = delete;

  std::byte* bytes() const { return bytes_; }
  std::int64_t size_bytes() const { return count_ * layout_.size_bytes(); }
  const Layout& layout() const { return layout_; }

  /// Takes the bytes from the GPU; they are here on return. Makes progress meanwhile. With gaps not behind a kernel
  /// that fills the GPU and waits for this process. Throws Error.
  void fetch();
  /// Begins that: they are here once settled() is true. Does not block. Throws Error.
  void begin_fetch();
  /// Begins to put the first `size_bytes` to their places on the GPU. Does not block. Throws Error.
  void begin_delivery(std::int64_t size_bytes);
  /// Whether what was begun has ended: then the bytes are visible to the calling thread, and to kernels that it
  /// launches. Does not block. Throws Error where the GPU works no longer.
  bool settled();
  /// Returns once settled() is true. Makes progress meanwhile. Throws Error.
  void await_delivery() { lanes_.await(*event_); }
  /// The MPI may read or write the bytes until its own end: they stay.
  void leave_to_the_mpi() noexcept { is_the_mpis_ = true; }

 private:
  std::byte* first_of_user() const;
  std::shared_ptr<const memory::GpuLayout> checked_layout();
  void check_user() const;
  GpuLane::Work work() const { return on_gpu_ == nullptr ? GpuLane::Work::copies : GpuLane::Work::kernels; }

  GpuLanes& lanes_;
  GpuLane& lane_;
  const int device_;
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
