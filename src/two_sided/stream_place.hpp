// Calls on GPU memory behind a stream of the program's.
#pragma once

#include <memory>

#include "memory/stream.hpp"
#include "transfer/communicator.hpp"
#include "two_sided/host_image.hpp"

namespace partita {

/// How far the program had filled its stream when a call was made: the buffers of the call are there, and may be
/// written, once the stream has come to that. Neither the stream nor the GPU waits for anything, but that CUDA's legacy
/// default stream, and what comes behind it, waits for all blocking streams. One thread at a time.
class StreamPlace {
 public:
  /// Marks the place that is now the last of the stream behind which calls on `communicator` come, which may be null;
  /// returns null where they come behind none. `device`: in whose memory the buffers lie, so that a default stream is
  /// its. Throws Error.
  static std::unique_ptr<StreamPlace> mark(GpuLanes& lanes, const Communicator* communicator, int device);
  ~StreamPlace();
  StreamPlace(const StreamPlace&) = delete;
  StreamPlace& operator=(const StreamPlace&) = delete;

  /// Whether the stream has come to it. Does not block. Throws Error where the GPU works no longer.
  bool passed() { return event_->passed(); }
  /// Returns once it has. Makes progress meanwhile, and says so where that takes long. Throws Error.
  void await();

 private:
  StreamPlace(GpuLanes& lanes, memory::Stream& stream);

  GpuLanes& lanes_;
  GpuLane& lane_;  ///< of the stream's GPU
  std::unique_ptr<memory::Event> event_;
};

}  // namespace partita
