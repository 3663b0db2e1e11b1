// Buffers in GPU memory, as the MPI's collectives take them: the same elements at the same distances, in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/element_block.hpp"
#include "two_sided/host_image.hpp"

namespace partita {

/// Host memory that stands for blocks of a buffer in one GPU's memory. One thread at a time.
class HostMirror {
 public:
  /// At least one block has bytes; those without are let out. Throws Error: class `buffer` where some do not lie in the
  /// memory of that GPU.
  HostMirror(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks, BufferUse use);
  /// No copy is under way any more. Blocks until then.
  ~HostMirror();
  HostMirror(const HostMirror&) = delete;
  HostMirror& operator=(const HostMirror&) = delete;

  int device() const { return device_; }
  /// Stands for the address of the user's buffer: every element lies as far from it. There may be no memory at it.
  void* buffer() const { return at(0); }

  /// Takes the elements from the GPU, where the call reads them; they are here on return. Makes progress meanwhile.
  /// Throws Error.
  void fetch();
  /// Begins that: they are here once fetched() is true. Does not block. Throws Error.
  void begin_fetch();
  /// Does not block. Throws Error where the GPU works no longer.
  bool fetched();
  /// Begins to put the elements to their places on the GPU, and no byte between them, where the call writes them. Does
  /// not block. Throws Error.
  void begin_delivery();
  /// Whether that has ended. Does not block. Throws Error where the GPU works no longer.
  bool settled();
  /// Returns once it has. Makes progress meanwhile. Throws Error.
  void await_delivery();
  /// The MPI may read or write the elements until its own end: they stay.
  void leave_to_the_mpi() noexcept { is_the_mpis_ = true; }

 private:
  /// Bytes in a row.
  struct Stretch {
    std::int64_t first_byte;
    std::int64_t size_bytes;
  };
  /// Elements with gaps, which a kernel moves.
  struct Scattered {
    std::int64_t offset_bytes;
    std::int64_t count;
    std::unique_ptr<HostImage> image;
  };
  void add(const ElementBlock& block, const Layout& layout, int device);
  void add_stretch(Stretch stretch);
  std::byte* at(std::int64_t offset_bytes) const { return shifted(memory_, offset_bytes - first_byte_); }
  std::int64_t size_bytes() const { return behind_last_byte_ - first_byte_; }
  void copy_stretches(bool to_gpu);
  void unpack();

  GpuLanes& lanes_;
  GpuLane& lane_;
  const int device_;
  std::byte* const user_;
  const BufferUse use_;
  std::vector<Stretch> stretches_;
  std::vector<Scattered> scattered_;
  std::int64_t first_byte_ = 0;
  std::int64_t behind_last_byte_ = 0;
  std::unique_ptr<memory::Event> event_;  ///< of the stretches
  std::byte* memory_ = nullptr;           ///< from first_byte_ on
  bool is_to_unpack_ = false;             ///< what was begun to be fetched
  bool is_the_mpis_ = false;
};

}  // namespace partita
