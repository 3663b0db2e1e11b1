// What an operation allows to be done with its partitions. One may have several facets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "memory/message_run.hpp"
#include "memory/stream.hpp"
#include "partita/device/completion.h"
#include "partita/device/prequest.h"

namespace partita {

/// The caller's data leave, partition by partition. Any thread, several at once. Never blocks; throws Error.
class Markable {
 public:
  /// Marks one partition, or all of [first, last]: a second mark in an epoch is an error.
  virtual void mark(std::int64_t partition) = 0;
  virtual void mark(std::int64_t first, std::int64_t last) = 0;

 protected:
  ~Markable() = default;
};

/// Data arrive, partition by partition. Any thread, several at once. Never blocks; throws Error.
class Awaitable {
 public:
  /// Whether partition `partition` lies in the user's buffer. Makes progress.
  virtual bool arrived(std::int64_t partition) = 0;

 protected:
  ~Awaitable() = default;
};

/// Kernels mark or await the partitions, by a device request, of which there is one at a time. One thread at a time,
/// unless said otherwise. Throws Error.
class KernelUsable {
 public:
  /// Whether all is known that a device request is made of. Throws Error if it never will be.
  virtual bool can_make_device_request() = 0;
  /// MPIX_Prequest_create.
  virtual const Partita_Prequest& make_device_request() = 0;
  /// MPIX_Prequest_free: no kernel uses it any more. Gives what a kernel did wrong and nobody was told.
  virtual std::optional<Error> free_device_request() = 0;
  /// Whether there is one, with a peer.
  virtual bool has_device_request() const = 0;
  /// Whether `view` is the device request that was made last and not freed. Any thread.
  virtual bool has_device_request(const Partita_Prequest& view) const = 0;
  /// What a kernel did wrong and nobody was told, who is told now.
  virtual std::optional<Error> untold_mistake() const = 0;

 protected:
  ~KernelUsable() = default;
};

/// A stream runs epochs by itself: no thread of the host takes part, and what waits for peers waits in the stream,
/// where each wait has a time limit. Each epoch is run so or by the host, from its start to the end of its wait. Called
/// for one queue at a time, by one thread at a time. Throws Error.
class StreamRunnable {
 public:
  /// Why `stream` cannot run the next epoch so, where the operation is matched: one clause without a full stop; empty
  /// where it can. The same until something else is called. `captured`: the program is capturing the stream, and each
  /// launch of the graph shall be an epoch. Neither blocks nor throws.
  virtual std::string why_not_on(const memory::Stream& stream, bool captured) const = 0;
  /// Whether that is empty; every start asks, and may do so cheaply.
  virtual bool runs_on(const memory::Stream& stream, bool captured) const {
    return why_not_on(stream, captured).empty();
  }
  /// Asks `stream` for the start of the next epoch, or adds it to `together`, starts that the caller launches there
  /// next: what the stream does before is done then. `captured`: as above. Where this throws, nothing was asked for, no
  /// epoch is open, and enqueue_wait() is not called.
  virtual void enqueue_start(memory::Stream& stream, bool captured, memory::MessageRun& together) = 0;
  /// Whether abandon() follows where enqueue_start() has thrown, as peers would wait for that epoch. Not of what throws
  /// because one side has ended the request: then they wait for none, and epochs in front of it may be under way.
  virtual bool ends_with_a_start() const = 0;
  /// Asks for the wait likewise: what comes behind finds the epoch complete, or that it never will be. It always lets
  /// the stream go on.
  virtual void enqueue_wait(memory::Stream& stream, memory::MessageRun& together) = 0;
  /// The stream has passed the oldest wait, if that was not captured, for which this was not called. The epoch is
  /// closed for the host. Throws what went wrong in it, if nobody was told before: then abandon() follows. In a step of
  /// the progress engine, while the next epochs may be under way; does not block.
  virtual void pass_wait() = 0;
  /// Words in GPU memory, up to `most_words_bytes`. Between two times that one of the request's waits in streams has
  /// had to wait, and is over, well or not, they have changed. There as long as an epoch may be under way; empty where
  /// no step of the request ever waits.
  virtual std::span<const std::byte> words_on_gpu() const = 0;
  static constexpr std::size_t most_words_bytes = 64;
  struct Held {
    std::string why;  ///< which epoch of which request, and which side is missing; a sentence
    /// So many starts that were asked for behind that epoch's the stream has not come to; none where nobody counts.
    std::optional<std::uint32_t> starts_to_come{};
  };
  /// What holds a stream in the newest epoch that streams have started; none where that is over. Asks the GPU, by the
  /// program's thread.
  virtual std::optional<Held> held() const = 0;
  /// Whether the stream stands at the start until the epoch is over, and not at the wait.
  virtual bool starts_wait() const { return false; }

 protected:
  ~StreamRunnable() = default;
};

/// Kernels of the program, between the start and the wait of an epoch that a stream runs, ask whether it is complete.
/// Any thread. Throws Error.
class KernelPollable {
 public:
  /// What they ask by, until the operation is freed. It is matched, and match_is_seen() was called.
  virtual Partita_Completion completion() const = 0;

 protected:
  ~KernelPollable() = default;
};

/// Null: the operation has none.
struct Facets {
  Markable* markable = nullptr;
  Awaitable* awaitable = nullptr;
  KernelUsable* kernel_usable = nullptr;
  StreamRunnable* stream_runnable = nullptr;
  KernelPollable* kernel_pollable = nullptr;
};

}  // namespace partita
