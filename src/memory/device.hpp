// GPU memory: what a pointer names, what of it other ranks of the node can map, copies and streams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/world.hpp"
#include "memory/device_export.hpp"
#include "memory/host.hpp"
#include "memory/memory.hpp"
#include "memory/stream.hpp"

namespace partita::memory {

/// Where [address, address + size) lies.
struct Place {
  Kind kind = Kind::host;
  int device = -1;  ///< the GPU's ordinal in this process, for Kind::device and Kind::managed
};

/// Why memory cannot be exported or mapped; one clause without a full stop.
struct NotMappable {
  std::string reason;
  /// What the peer has freed since is mapped at its place: the same import may succeed once nobody here holds that.
  bool is_occupied = false;
  /// And nobody here holds it now: it was not closed since kernels may be waiting for this process (Closing).
  bool is_unused = false;
};

/// Which unused mappings of peers' memory may be closed.
enum class Closing {
  /// All. The driver closes a mapping of cudaMalloc memory once every running kernel of this process has ended, and
  /// lets no thread launch or copy until then: only while no kernel can be waiting for this process.
  all,
  without_blocking,  ///< those of memory that came by descriptors
};

/// When import() closes what is unused and in its way.
enum class Clearing {
  if_quiet,  ///< while no kernel can be waiting for this process, or where that does not matter
  always,    ///< then it may return only once all kernels that run have ended
};

/// CUDA is first touched by the first call that is not place_of, or by place_of itself where the program has touched it
/// before: a program chooses its GPU first. Throws Error where CUDA fails. Any thread may call.
class DeviceMemory {
 public:
  /// Who holds results of import() that are not in use, so that they are there when they are needed again.
  class Keeper {
   public:
    /// Those of memory that `peer` has had where `piece` lies now are in the way of another import. Any thread; may
    /// not import, nor add or remove keepers.
    virtual void let_go_of(int peer, const DevicePiece& piece) = 0;

   protected:
    ~Keeper() = default;
  };

  virtual ~DeviceMemory() = default;

  /// Whether this build knows of GPU memory at all.
  virtual bool exists() const { return true; }
  /// Whether this process can come to have some: it sees a GPU. Looks at the system, and loads and starts nothing.
  virtual bool may_come() const { return exists(); }
  /// Whether memory may lie in a GPU: the process has begun to use CUDA. Cheap.
  virtual bool in_use() const { return true; }

  /// Where the first byte lies. Asks the driver, so a freed and re-used address is noticed. Host where this build or
  /// this machine has no CUDA.
  virtual Place place_of(const void* address, std::size_t size_bytes) = 0;

  /// Makes device memory mappable for `peer`, which may be this rank, and names it; or why that cannot be (pools,
  /// managed memory).
  virtual std::variant<DeviceExport, NotMappable> export_to(int peer, const void* address, std::size_t size_bytes) = 0;
  /// Why export_to() would not name this GPU memory to another rank as one piece; empty where it would, unless CUDA
  /// fails. Passes nothing to anybody.
  virtual std::string why_not_exported(const void* address, std::size_t size_bytes) = 0;
  /// Names this GPU memory to `peer`, another rank of the node, as one piece and without passing anything to it, so
  /// that it need not be told whether anybody maps it; or why that cannot be. Throws Error.
  virtual std::variant<DevicePiece, NotMappable> name_to(int /*peer*/, const void* /*address*/,
                                                         std::size_t /*size_bytes*/) {
    return NotMappable{"no handle names it"};
  }
  /// Maps what `peer` named for use by GPU `device`; the mapping is cached and lives at least as long as the result,
  /// which must not outlive this object. An export by descriptors can be imported again until trim() has closed its
  /// mapping. Unused mappings that are in the way are closed, and no others, if they are of `closing`.
  virtual std::variant<std::shared_ptr<std::byte>, NotMappable> import(int peer, const DeviceExport& memory, int device,
                                                                       Closing closing) = 0;
  /// What import() of the same, of another process, would return without mapping anything; null where it would have to
  /// map it. While the caller holds it nobody closes it. It takes nothing of what was passed.
  virtual std::shared_ptr<std::byte> find_mapping(int peer, const DeviceExport& memory, int device) = 0;
  /// As import() above; of what is in the way it closes what a Keeper has, too.
  std::variant<std::shared_ptr<std::byte>, NotMappable> import(int peer, const DeviceExport& memory, int device,
                                                               Clearing clearing = Clearing::if_quiet);
  /// What may be closed at a time says `closing`: any thread, which may hold locks of the layers above. It takes locks
  /// and may ask the GPU, but waits for no kernel. Before any import; else that is all.
  void set_closing(std::function<Closing()> closing) { closing_ = std::move(closing); }

  /// Takes, and closes, what `peer` has passed for memory that it named and this rank does not map. Throws Error.
  virtual void decline(int peer, const DeviceExport& memory) = 0;

  /// How much memory GPU `device` has, whoever uses it. 0 where this build has no CUDA. Throws Error.
  virtual std::uint64_t memory_bytes(int device) = 0;

  void add(Keeper& keeper);
  void remove(Keeper& keeper);

  /// A small piece of memory of GPU `device` that can be exported: flags, counters, packets. Aligned to 128 bytes,
  /// zeroed. Pooled: stays the library's after free_block. May allocate and run a memset: not behind a kernel that
  /// fills the GPU and waits for this process.
  virtual std::byte* allocate_block(int device, std::size_t size_bytes) = 0;
  /// Such a piece with any contents, for an owner that writes all of it: that spares a memset and the wait for it.
  virtual std::byte* allocate_unzeroed_block(int device, std::size_t size_bytes) {
    return allocate_block(device, size_bytes);
  }
  virtual void free_block(int device, std::byte* block, std::size_t size_bytes) = 0;

  /// How GPU `device` addresses `host`, a byte in a segment of HostMemory (own or a peer's); registers that segment
  /// with CUDA at first.
  virtual std::byte* device_pointer(int device, std::byte* host) = 0;

  /// A stream of Partita's own, which neither waits for the program's streams nor lets them wait, and whose work goes
  /// first where the GPU has a choice.
  virtual std::unique_ptr<Stream> make_stream(int device) = 0;
  virtual std::unique_ptr<CopyQueue> make_copy_queue(int device) { return make_stream(device); }
  /// The program's stream, a cudaStream_t (null: the default one of the calling thread's GPU), which stays the
  /// program's and outlives the result. Throws Error where the stream's context is not the one that CUDA's runtime
  /// uses.
  virtual std::unique_ptr<Stream> stream_of_program(void* native) = 0;
  virtual std::unique_ptr<Event> make_event(int device) = 0;

  /// Between any two places of this process; returns when it is complete. Not behind any kernel of the program.
  virtual void copy(void* to, const void* from, std::size_t size_bytes) = 0;

  /// Throws Error where GPU `device` no longer works in this process: a kernel of it has failed. Does not block.
  virtual void check(int device) = 0;

  /// Closes the mappings of import() that nobody holds any more, if they keep more than `allowed_bytes` of peers'
  /// memory: those of `closing`. Returns how much they keep then.
  virtual std::uint64_t trim(std::size_t allowed_bytes, Closing closing) = 0;

  /// From now on a thread that waits for what a GPU does calls `body`, with that GPU, again and again while that takes
  /// long, whatever locks it holds: streams of the program may stand in the way that wait for this process. `body`
  /// neither waits nor asks the GPU, and throws nothing; null: nothing is called. While no thread waits.
  virtual void set_meanwhile(const std::function<void(int device)>& /*body*/) {}

  /// Makes GPU `device` the calling thread's, if it has none: for libraries that copy in the thread's CUDA context.
  /// Cheap from the second call on.
  virtual void make_current(int device) = 0;
  /// Calls `body` with GPU `device` current in this thread, whichever it has before and behind.
  virtual void with_gpu(int /*device*/, const std::function<void()>& body) { body(); }
  /// Calls `body` with no GPU current in this thread: for libraries that page-lock the host memory that they are given
  /// where the thread has one.
  virtual void without_gpu(const std::function<void()>& body) { body(); }

 private:
  void keepers_let_go_of(int peer, const DeviceExport& memory);

  std::function<Closing()> closing_ = [] { return Closing::all; };
  std::mutex keepers_mutex_;
  std::vector<Keeper*> keepers_;
};

/// While one lives, threads that wait for a GPU call `body`: see DeviceMemory::set_meanwhile().
class Meanwhile {
 public:
  Meanwhile(DeviceMemory& memory, const std::function<void(int device)>& body) : memory_(memory) {
    memory_.set_meanwhile(body);
  }
  ~Meanwhile() { memory_.set_meanwhile(nullptr); }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  DeviceMemory& memory_;
};

/// Text for `partita info`: the GPUs of this process, what of Partita's needs each has, and which of them reach one
/// another; or why there are none. Makes no context.
std::string describe_gpus();

/// What this build has: CUDA's, or one that knows host memory only and throws for the rest.
std::unique_ptr<DeviceMemory> make_device_memory(World& world, HostMemory& host_memory);

}  // namespace partita::memory
