#include "partitioned/gpu/gpu_packing.hpp"

#include <algorithm>
#include <atomic>

namespace partita {
namespace {

constexpr std::size_t word_bytes = 64;
constexpr unsigned looks_each_question = 64;

}  // namespace

GpuPacking::GpuPacking(const Services& services, Owner& owner, const Message& message)
    : progress_(services.progress),
      owner_(owner),
      message_(message),
      layout_(services.device_memory, message.place().device, message.layout()),
      host_blocks_(services.host_blocks),
      ended_(reinterpret_cast<Epoch*>(services.host_blocks.allocate_block(word_bytes))),
      begun_(static_cast<std::size_t>(message.partitions())) {
  try {
    auto* const on_host = reinterpret_cast<std::byte*>(ended_);
    ended_on_gpu_ = reinterpret_cast<Epoch*>(services.device_memory.device_pointer(message.place().device, on_host));
    stream_ = services.device_memory.make_stream(message.place().device);
  } catch (...) {
    host_blocks_.free_block(reinterpret_cast<std::byte*>(ended_), word_bytes);
    throw;
  }
}

GpuPacking::~GpuPacking() {
  close();
  progress_.dismiss(*this);
  stream_.reset();
  host_blocks_.free_block(reinterpret_cast<std::byte*>(ended_), word_bytes);
}

void GpuPacking::begin(link::Range partitions, std::byte* packed, std::int64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  const link::Range bytes = message_.packed_bytes(partitions);
  const std::int64_t moving = std::min(bytes.end, total_bytes) - bytes.begin;
  std::byte* const user = message_.partition(partitions.begin);
  if (message_.is_sent()) {
    layout_.pack(*stream_, user, moving, packed + bytes.begin);
  } else {
    layout_.unpack(*stream_, packed + bytes.begin, user, moving);
  }
  const std::uint64_t before = begins_.load(std::memory_order_relaxed);
  begun_[before % begun_.size()] = partitions;
  stream_->write(ended_on_gpu_, static_cast<Epoch>(before + 1));  // pairs with tell_of_moved()
  begins_.store(before + 1, std::memory_order_release);           // likewise
  progress_.activate(*this);
}

ActiveStep::Outcome GpuPacking::step() noexcept {
  try {
    return tell_of_moved();
  } catch (const std::exception&) {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    owner_.could_not_move();
    return Outcome::idle;
  }
}

ActiveStep::Outcome GpuPacking::tell_of_moved() {
  bool moved = false;
  std::uint64_t told = told_.load(std::memory_order_relaxed);
  while (told != begins_.load(std::memory_order_acquire)) {
    const Epoch ended = std::atomic_ref(*ended_).load(std::memory_order_acquire);
    if (!reached(ended, static_cast<Epoch>(told + 1))) {
      if (!moved) check_stream();
      return moved ? Outcome::moved : Outcome::waiting;
    }
    owner_.moved(begun_[told % begun_.size()]);
    told_.store(++told, std::memory_order_release);  // pairs with all_told(): the owner may open another epoch
    moved = true;
  }
  return moved ? Outcome::moved : Outcome::idle;
}

/// Another thread that begins something at the moment would be told.
void GpuPacking::check_stream() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && ++looks_ % looks_each_question == 0) stream_->idle();
}

void GpuPacking::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    try {
      stream_->drain();
    } catch (const std::exception&) {
      // The GPU works no longer: nothing is under way.
    }
  }
  progress_.dismiss(*this);
}

}  // namespace partita
