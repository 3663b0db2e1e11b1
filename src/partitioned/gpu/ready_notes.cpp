#include "partitioned/gpu/ready_notes.hpp"

#include <array>
#include <atomic>

#include "core/error.hpp"

namespace partita {
namespace {

/// A stream takes about a thousand operations before it blocks its caller.
constexpr Epoch most_under_way = 64;

}  // namespace

ReadyNotes::~ReadyNotes() {
  for (auto& [device, queue] : queues_) drain(queue);
}

void ReadyNotes::set_up(int device) {
  const std::lock_guard lock(mutex_);
  queues_.try_emplace(device, host_memory_, device_memory_, device);
}

ReadyNotes::Queue::Queue(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, int device)
    : landed(host_memory, sizeof(Epoch)),
      landed_on_gpu(reinterpret_cast<Epoch*>(device_memory.device_pointer(device, landed.address()))),
      stream(device_memory.make_copy_queue(device)) {}

Epoch ReadyNotes::Queue::under_way() const {
  // Pairs with the stream's write: where none is under way, the memory of the notes' words may go.
  return issued - std::atomic_ref(*reinterpret_cast<Epoch*>(landed.address())).load(std::memory_order_acquire);
}

void ReadyNotes::send(int device, Epoch* word, Epoch epoch) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_.at(device);
  if (queue.under_way() >= most_under_way) return;
  const Epoch note = next(queue.issued);
  const std::array writes{memory::WordWrite{word, epoch}, memory::WordWrite{queue.landed_on_gpu, note}};
  try {
    queue.stream->write(writes);
    queue.issued = note;
  } catch (const Error&) {
    // The GPU works no longer, as those hear who wait for it.
  }
}

void ReadyNotes::drain(int device) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(device);
  if (found != queues_.end()) drain(found->second);
}

void ReadyNotes::drain(Queue& queue) noexcept {
  if (queue.under_way() == 0) return;
  try {
    queue.stream->drain();
  } catch (const Error&) {
    // The GPU works no longer: nothing is on its way.
  }
}

}  // namespace partita
