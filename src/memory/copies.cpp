#include "memory/copies.hpp"

#include <atomic>

namespace partita::memory {
namespace {

constexpr unsigned looks_each_question = 64;

}  // namespace

Copies::Copies(HostBlocks& blocks, DeviceMemory& memory, int device, std::int32_t places)
    : blocks_(blocks),
      size_bytes_(static_cast<std::size_t>(places) * sizeof(Epoch)),
      words_(blocks.allocate_block(size_bytes_)) {
  try {
    words_on_gpu_ = reinterpret_cast<Epoch*>(memory.device_pointer(device, words_));
    queue_ = memory.make_copy_queue(device);
    writes_.reserve(static_cast<std::size_t>(places));
  } catch (...) {
    blocks_.free_block(words_, size_bytes_);
    throw;
  }
}

Copies::~Copies() {
  drain();
  queue_.reset();
  blocks_.free_block(words_, size_bytes_);
}

Epoch* Copies::word(std::int64_t place) const {
  return reinterpret_cast<Epoch*>(words_) + place;
}

void Copies::begin(std::int64_t first, std::int64_t end, Epoch epoch, void* to, const void* from,
                   std::size_t size_bytes) {
  if (size_bytes > 0) queue_->copy(to, from, size_bytes);
  writes_.clear();
  for (std::int64_t place = first; place < end; ++place) writes_.push_back({words_on_gpu_ + place, epoch});
  queue_->write(writes_);  // pairs with filled()
}

bool Copies::filled(std::int64_t place, Epoch epoch) const {
  return std::atomic_ref(*word(place)).load(std::memory_order_acquire) == epoch;
}

void Copies::check() {
  if (++looks_ % looks_each_question == 0) queue_->idle();
}

void Copies::drain() noexcept {
  try {
    queue_->drain();
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
}

}  // namespace partita::memory
