#include "two_sided/stream_place.hpp"

#include <utility>

namespace partita {
namespace {

CallStream stream_of(const GpuLanes& lanes, const Communicator* communicator) {
  const CallStream own =
      communicator == nullptr ? CallStream::of_job : communicator->stream.load(std::memory_order_relaxed);
  return own == CallStream::of_job ? lanes.stream_of_job() : own;
}

}  // namespace

std::unique_ptr<StreamPlace> StreamPlace::mark(GpuLanes& lanes, const Communicator* communicator, int device) {
  const CallStream which = stream_of(lanes, communicator);
  if (which == CallStream::none) return nullptr;
  memory::DeviceMemory& device_memory = lanes.device_memory();
  std::unique_ptr<memory::Stream> stream;
  device_memory.with_gpu(device, [&] { stream = device_memory.stream_of_program(reinterpret_cast<void*>(which)); });
  if (stream->capturing()) {
    throw Error(ErrorClass::other,
                "the call comes behind the stream {} of the program's, which is being captured into a graph, and no "
                "graph takes calls of the MPI's; expected is that the capture has ended",
                text_of(which));
  }
  return std::unique_ptr<StreamPlace>(new StreamPlace(lanes, *stream));
}

StreamPlace::StreamPlace(GpuLanes& lanes, memory::Stream& stream)
    : lanes_(lanes), lane_(lanes.of(stream.device())), event_(lane_.take_event()) {
  stream.record(*event_);
}

/// An event to which the stream has yet to come is not used again: it would tell of both places.
StreamPlace::~StreamPlace() {
  try {
    if (event_->passed()) lane_.give_back(std::move(event_));
  } catch (const std::exception&) {
    // The GPU works no longer.
  }
}

void StreamPlace::await() {
  lanes_.await(*event_, {"a call on GPU memory",
                         "the stream of the program's that it comes behind is not there yet; the default stream "
                         "\"legacy\" waits for all others that were not made non-blocking",
                         true});
}

}  // namespace partita
