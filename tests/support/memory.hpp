// Memory of each kind that a program may hand to Partita, as tests fill and look at it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "support/gpu_memory.hpp"

namespace partita::test {

/// Where the memory of a buffer comes from.
enum class Memory { plain, mpi_alloc, gpu };
const char* name_of(Memory memory);

enum class Direction { send, receive };
/// For tests whose subject is not the memory: plain, or, where GPU memory is wanted, of one matched pair after another
/// with `tag` GPU memory on both sides, at the receiver only and at the sender only. Any thread.
Memory memory_of_next(Direction direction, int tag);

struct FreeMemory {
  Memory memory = Memory::plain;
  void operator()(std::uint8_t* data) const;
};

/// Copies to a GPU that are gathered, and then made together.
class GatheredCopies {
 public:
  /// Where the `n` bytes for `to` are to be written before make() is called.
  std::uint8_t* add(std::uint8_t* to, std::int64_t n) {
    const auto& bytes = blocks_.emplace_back(std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(n)));
    copies_.push_back({to, bytes.get(), static_cast<std::size_t>(n)});
    return bytes.get();
  }
  void make() const {
    if (!copies_.empty()) gpu_copies(copies_);
  }

 private:
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;
  std::vector<GpuCopy> copies_;
};

/// A piece of memory that the host fills and looks at wherever it lies.
class Bytes {
 public:
  Bytes() = default;
  /// `size_bytes` bytes of no particular value.
  Bytes(Memory memory, std::int64_t size_bytes);

  std::uint8_t* address() const { return data_.get(); }
  std::int64_t size_bytes() const { return size_bytes_; }

  /// Calls `use(bytes)` with bytes [first, last) where the host can read them: they, or a copy as they are now.
  template <class Use>
  auto read(std::int64_t first, std::int64_t last, const Use& use) const {
    if (memory_ != Memory::gpu) return use(const_cast<const std::uint8_t*>(data_.get() + first));
    std::vector<std::uint8_t> copy(static_cast<std::size_t>(last - first));
    gpu_copy(copy.data(), data_.get() + first, copy.size());
    return use(const_cast<const std::uint8_t*>(copy.data()));
  }
  /// Calls `fill(bytes)`, which writes all of bytes [first, last). A GPU's are written when `copies` are made.
  template <class Fill>
  void write(std::int64_t first, std::int64_t last, GatheredCopies& copies, const Fill& fill) {
    std::uint8_t* const own = data_.get() + first;
    fill(memory_ == Memory::gpu ? copies.add(own, last - first) : own);
  }
  /// Writes in the same way, a GPU's bytes too before it returns.
  template <class Fill>
  void write(std::int64_t first, std::int64_t last, const Fill& fill) {
    GatheredCopies copies;
    write(first, last, copies, fill);
    copies.make();
  }

 private:
  Memory memory_ = Memory::plain;
  std::int64_t size_bytes_ = 0;
  std::unique_ptr<std::uint8_t, FreeMemory> data_;
};

}  // namespace partita::test
