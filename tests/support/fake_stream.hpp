// Streams of the fake GPU (support/fake_gpu.hpp): a thread does what is asked for, in order and some time later.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory/stream.hpp"

namespace partita::test {

/// What stands behind a stream; a pointer to one is its native handle. Any thread.
class FakeWorker {
 public:
  using Operation = std::function<void()>;

  FakeWorker();
  /// Does what was asked for first.
  ~FakeWorker();
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;

  /// A number of what was asked for, which counts on.
  using Place = std::uint64_t;

  /// Returns the place of `operation`. While operations are captured they are kept instead.
  Place ask(Operation operation);
  /// The last one.
  Place asked();
  /// Whether all up to `place` is done.
  bool has_come_to(Place place);
  /// Blocks until all that was asked for is.
  void drain();

  void begin_capture();
  bool capturing();
  /// What was asked for meanwhile.
  std::vector<Operation> end_capture();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> asked_;  ///< the first one is being done; an empty one is the end
  Place done_ = 0;
  bool capturing_ = false;
  std::deque<Operation> captured_;
  std::thread thread_;
};

/// As a GPU's copy engine, beside kernels that use the same words: few words are stored one after the other, each
/// whole.
void copy_as_an_engine(void* to, const void* from, std::size_t size_bytes);

/// A stream of the library's own.
std::unique_ptr<memory::Stream> make_fake_stream(int gpu);
/// The program's. `worker` outlives it, as the next.
std::unique_ptr<memory::Stream> fake_stream_of(int gpu, FakeWorker& worker);
/// The library's, in one work queue with `worker`.
std::unique_ptr<memory::Stream> fake_stream_beside(int gpu, FakeWorker& worker);
std::unique_ptr<memory::Event> make_fake_event();

}  // namespace partita::test
