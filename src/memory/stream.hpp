// Work on a GPU in order: copies, words that are written and awaited, events, the library's own kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/epoch.hpp"
#include "memory/kernels.hpp"

namespace partita::memory {

/// A word of 4 or 8 bytes, as the GPU addresses it, and what it is to read.
struct WordWrite {
  WordWrite(Epoch* to, Epoch reads) : word(to), value(reads), bytes(sizeof reads) {}
  WordWrite(std::uint64_t* to, std::uint64_t reads) : word(to), value(reads), bytes(sizeof reads) {}

  void* word;
  std::uint64_t value;
  std::uint32_t bytes;
};

/// Copies and flag writes on one GPU, in the order in which they were asked for. Any thread, one at a time. Members
/// throw Error.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  /// Copies within what this process maps: GPU, peer GPU, host. Does not block, but for pageable host memory.
  virtual void copy(void* to, const void* from, std::size_t size_bytes) = 0;
  /// Stores the values; who sees one of them at system scope sees all copies before it.
  virtual void write(std::span<const WordWrite> writes) = 0;
  void write(Epoch* word, Epoch value) {
    const WordWrite write_one{word, value};
    write(std::span(&write_one, 1));
  }
  /// What comes behind waits for what `other`, on the same GPU, was asked for so far. Throws Error where that is a
  /// stream of the program's which is being captured.
  virtual void follow(CopyQueue& other) = 0;
  /// Whether everything asked for so far is complete. Does not block.
  virtual bool idle() = 0;
  /// Blocks until it is; on a stream of Partita's, not behind any kernel of the program.
  virtual void drain() = 0;
};

/// A place in a stream. It can be recorded again: what awaits the place before goes on awaiting that.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether the stream has come to the place that was recorded last; true of one that never was. Does not block.
  virtual bool passed() = 0;
};

/// A stream of Partita's own, or the program's (DeviceMemory). Nothing but drain blocks the caller. While the program
/// captures the stream into a graph, what is asked for becomes nodes of that: it happens when the graph runs, each time
/// with the same addresses and values, except what a kernel reads from memory (WordStore::from, AwaitWord::from); idle
/// and drain throw.
class Stream : public CopyQueue {
 public:
  virtual int device() const = 0;
  /// Whether the program is capturing the stream into a graph.
  virtual bool capturing() = 0;

  using CopyQueue::write;
  virtual void write(std::uint64_t* word, std::uint64_t value) = 0;
  /// What comes behind waits until `word`, as the GPU addresses it, reads `value`, or has come to it. There is no limit
  /// to the wait: whoever gives it up writes the word.
  virtual void wait(const std::uint32_t* word, std::uint32_t value, Until until) = 0;
  virtual void wait(const std::uint64_t* word, std::uint64_t value, Until until) = 0;

  /// `event`, which is of the same GPU, stands for all that was asked for so far.
  virtual void record(Event& event) = 0;
  /// What comes behind waits for `event`, of any GPU of this process.
  virtual void await(const Event& event) = 0;

  /// Runs one of the library's kernels: `arguments` is one of memory/kernels.hpp. It was loaded when this
  /// process first used the GPU, so a launch never waits for kernels that run.
  template <class Arguments>
  void launch(Grid grid, const Arguments& arguments) {
    launch(Arguments::kernel, grid, std::as_bytes(std::span(&arguments, 1)));
  }

 private:
  virtual void launch(Kernel kernel, Grid grid, std::span<const std::byte> arguments) = 0;
};

}  // namespace partita::memory
