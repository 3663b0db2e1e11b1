// GPU memory of the tests' own making, which is host memory in truth: the whole library runs on it without a GPU, and
// threads stand for kernels (partita/device.cuh on CPU threads). Programs that link it take it in place of the
// library's, which lies in an archive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "memory/device.hpp"

namespace partita::test {

class FakeWorker;

/// The GPUs of this machine, and what of them other processes can map.
enum Gpu {
  nothing,
  buffers_only,    ///< but not the library's own memory: flags, counters
  blocks_only,     ///< the library's memory only
  unreached_peer,  ///< both can be named, but the peer's GPU cannot reach them
  mapped,          ///< everything, and it is
  blocks_mapped,   ///< the library's memory only, and it is
  many_handles,    ///< the program's, of four handles for each buffer
  mapped_too,      ///< another GPU like `mapped`
};

class FakeGpu final : public memory::DeviceMemory {
 public:
  FakeGpu(World& world, memory::HostMemory& host_memory);
  ~FakeGpu() override;

  /// The one that the library has made.
  static FakeGpu& instance();

  std::byte* allocate(Gpu gpu, std::size_t size_bytes) { return remember(gpu, true, size_bytes); }
  void free(std::byte* memory);
  /// As if the program had freed this memory, and had got as much again at the same address.
  void replace(const std::byte* memory);
  /// Copies from this byte on, and kernels that pack elements from there, wait until it is null again.
  void hold(const std::byte* from) { held_ = from; }
  /// All copies and packing kernels wait while `held` is true.
  void hold_all(bool held) { all_held_ = held; }
  bool holds(const void* from) const { return all_held_ || (from != nullptr && held_ == from); }
  /// Streams of the library's that are made from now on share a work queue with `stream`, of the program, as where a
  /// process has few of them: what one is asked for waits for all that either was asked for before. Null: they share
  /// none. Nothing is captured meanwhile, and `stream` outlives the library.
  void share_work_queue(FakeWorker* stream) { shared_ = stream; }
  /// How many copies and words streams were asked for so far.
  std::uint64_t operations() const { return operations_; }
  /// How many times somebody has copied from or to GPU memory and waited for that (copy).
  std::uint64_t awaited_copies() const { return awaited_copies_; }
  /// How many of them were copies, and how many kernels were launched.
  std::uint64_t copies() const { return copies_; }
  std::uint64_t launches() const { return launches_; }
  void count_words(std::size_t words) { operations_ += words; }
  /// Counts one copy of a stream.
  void count_copy(const void* to, const void* from);
  void count_launch() { ++launches_; }
  /// How many of these have not ended, where none was captured.
  std::uint64_t kernels_under_way() const { return launches_ - ended_launches_; }
  void count_end_of_launch() { ++ended_launches_; }
  /// How many streams of the library's own were made.
  std::uint64_t streams_made() const { return streams_made_; }
  /// How many of the copies had an end in host memory so far.
  std::uint64_t copies_with_host() const { return copies_with_host_; }
  /// The next block of the library's own that this thread allocates comes behind a call of `body`: what comes in the
  /// middle of its calls.
  static void before_next_block(std::function<void()> body);
  /// From now on no two allocations of a peer's program are mapped at one place, as with a driver; what is mapped of
  /// one that has gone stays usable until it is closed, which is when it stands in the way and nobody holds it.
  void tell_places_apart(bool told) { tells_places_apart_ = told; }
  /// How many times so far something that somebody held was in the way of an import.
  std::uint64_t held_in_the_way() const { return held_in_the_way_; }
  /// As if one of its kernels had failed.
  void fail(Gpu gpu);
  /// What the driver or the system may fail in.
  enum class Step { none, place_of, why_not_exported, export_to, import, allocate_block };
  /// The next such call throws, as for want of memory or descriptors.
  void fail_next(Step step) { failing_ = step; }
  /// Streams take so many copies more; then all that they are asked for throws, until this is called with `no_limit`.
  void limit_copies(std::uint64_t copies) { copies_left_ = copies; }
  static constexpr std::uint64_t no_limit = ~std::uint64_t{0};
  /// A stream is asked for a copy, or for what stands behind some.
  void ask_copy() {
    check_limit();
    if (copies_left_ != no_limit) --copies_left_;
  }
  void check_limit() const;
  /// How many pieces of memory there are, the program's and the library's.
  std::size_t allocations() {
    const std::lock_guard lock(mutex_);
    return allocations_.size();
  }
  /// Whether the one that was to fail last has.
  bool has_failed() const { return failing_ == Step::none; }
  /// As if what the peers name from now on lay where memory that they have freed is mapped, until that is closed.
  void occupy() { is_occupied_ = true; }
  /// How many times export_to() has named memory to another rank so far.
  std::uint64_t exports() const { return exports_; }
  /// As if each of its GPUs had so much memory.
  void set_memory_bytes(std::uint64_t bytes) { memory_bytes_ = bytes; }
  static constexpr std::uint64_t all_memory_bytes = std::uint64_t{80} << 30;
  /// Peers' memory is mapped only once `held` is false, as where the driver waits for kernels.
  void hold_imports(bool held) { imports_held_ = held; }
  /// How many times peers' memory was to be mapped so far, and how many times it was declined.
  std::uint64_t imports() const { return imports_; }
  std::uint64_t declined() const { return declined_; }
  /// Passes a descriptor of memory of its own to `peer`, as where it could not open this rank's files.
  void pass_descriptor(int peer);
  /// What trim() was called with since the last time.
  std::vector<memory::Closing> take_trimmed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(trimmed_, {});
  }
  /// As no real one can, for the tests after it.
  void mend(Gpu gpu);

  memory::Place place_of(const void* address, std::size_t size_bytes) override;
  std::variant<memory::DeviceExport, memory::NotMappable> export_to(int peer, const void* address,
                                                                    std::size_t size_bytes) override;
  std::variant<memory::DevicePiece, memory::NotMappable> name_to(int peer, const void* address,
                                                                 std::size_t size_bytes) override;
  std::string why_not_exported(const void* address, std::size_t size_bytes) override;
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int peer, const memory::DeviceExport& pieces,
                                                                       int gpu, memory::Closing closing) override;
  std::shared_ptr<std::byte> find_mapping(int peer, const memory::DeviceExport& pieces, int gpu) override;
  void decline(int, const memory::DeviceExport&) override { ++declined_; }
  std::uint64_t memory_bytes(int) override { return memory_bytes_; }
  std::byte* allocate_block(int gpu, std::size_t size_bytes) override;
  std::byte* allocate_unzeroed_block(int gpu, std::size_t size_bytes) override;
  void free_block(int gpu, std::byte* block, std::size_t size_bytes) override;
  std::byte* device_pointer(int gpu, std::byte* host) override;
  std::unique_ptr<memory::Stream> make_stream(int gpu) override;
  /// `native`: a FakeWorker, of the GPU `mapped`, or one of CUDA's numbers of default streams.
  std::unique_ptr<memory::Stream> stream_of_program(void* native) override;
  /// What stands behind such a handle; of a default stream it is made here.
  FakeWorker& worker_of(void* native);
  std::unique_ptr<memory::Event> make_event(int gpu) override;
  void copy(void* to, const void* from, std::size_t size_bytes) override;
  void check(int gpu) override;
  std::uint64_t trim(std::size_t, memory::Closing closing) override {
    const std::lock_guard lock(mutex_);
    trimmed_.push_back(closing);
    if (closing != memory::Closing::all) return 0;
    is_occupied_ = false;
    std::erase_if(imported_, [](const auto& memory) { return memory.second.use_count() == 1; });
    return 0;
  }
  void make_current(int) override {}
  void set_meanwhile(const std::function<void(int)>& body) override { meanwhile_ = body; }
  /// Whoever waits for a stream of the library's calls it now and then.
  void meanwhile(int device) const {
    if (meanwhile_) meanwhile_(device);
  }

 private:
  struct Allocation {
    int gpu;
    bool of_program;
    std::size_t size_bytes;
    std::uint64_t id;
  };

  struct Imported {
    Imported(int peer, const memory::DevicePiece& piece, std::byte* host);
    /// Nothing of a program's buffer is mapped any more: who stores there ends with a signal.
    ~Imported();
    Imported(const Imported&) = delete;
    Imported& operator=(const Imported&) = delete;

    int peer;
    std::uint64_t address;  ///< in the peer's process
    std::uint64_t id;       ///< 0: of the library's own
    std::byte* memory;      ///< here; of a program's buffer a mapping of its own
    std::size_t size_bytes;
    std::byte* pages = nullptr;  ///< in which that lies
    std::size_t pages_bytes = 0;
  };

  void may_fail(Step step);
  std::byte* remember(int gpu, bool of_program, std::size_t size_bytes);
  /// Null for host memory.
  const Allocation* allocation_of(const void* address);
  /// Whether it is a peer's memory.
  bool is_imported(const void* address);
  /// Whether other memory that was `peer`'s at the place of `piece` is mapped still: what nobody holds is closed, if
  /// `closing` is all.
  bool is_occupied(int peer, const memory::DevicePiece& piece, memory::Closing closing);
  /// Whether nobody holds any of that.
  bool is_unused(int peer, const memory::DevicePiece& piece) const;
  static bool overlaps(const Imported& imported, int peer, const memory::DevicePiece& piece);

  World& world_;
  memory::HostMemory& host_memory_;
  std::mutex default_streams_mutex_;
  std::map<std::thread::id, std::unique_ptr<FakeWorker>> default_streams_;  ///< of no thread: the legacy one
  std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;
  /// Peers' memory, by the first byte in a common mapping, the id and the size. It stays, as memory does that the
  /// driver waits to close.
  std::map<std::tuple<std::byte*, std::uint64_t, std::uint64_t>, std::shared_ptr<Imported>> imported_;
  std::set<int> failed_;
  std::vector<memory::Closing> trimmed_;
  std::atomic<const std::byte*> held_{nullptr};
  std::function<void(int)> meanwhile_;
  std::atomic<FakeWorker*> shared_{nullptr};
  std::atomic<bool> imports_held_{false};
  std::atomic<bool> is_occupied_{false};
  std::atomic<bool> tells_places_apart_{false};
  std::atomic<std::uint64_t> memory_bytes_{all_memory_bytes};
  std::uint64_t allocated_ = 0;
  std::atomic<Step> failing_{Step::none};
  std::atomic<bool> all_held_{false};
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> exports_{0};
  std::atomic<std::uint64_t> copies_{0};
  std::atomic<std::uint64_t> imports_{0};
  std::atomic<std::uint64_t> declined_{0};
  std::atomic<std::uint64_t> copies_left_{no_limit};
  std::atomic<std::uint64_t> copies_with_host_{0};
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> awaited_copies_{0};
  std::atomic<std::uint64_t> ended_launches_{0};
  std::atomic<std::uint64_t> streams_made_{0};
  std::atomic<std::uint64_t> held_in_the_way_{0};
};

/// Memory of such a GPU.
class FakeGpuBuffer {
 public:
  FakeGpuBuffer(Gpu gpu, std::size_t size_bytes) : data_(FakeGpu::instance().allocate(gpu, size_bytes)) {}
  ~FakeGpuBuffer() { FakeGpu::instance().free(data_); }
  FakeGpuBuffer(const FakeGpuBuffer&) = delete;
  FakeGpuBuffer& operator=(const FakeGpuBuffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

}  // namespace partita::test
