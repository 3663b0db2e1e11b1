#include "collective/gpu_work.hpp"

#include <atomic>

#include "memory/grid.hpp"

namespace partita::collective {
namespace {

constexpr std::size_t word_bytes = 64;
constexpr unsigned looks_each_question = 64;

}  // namespace

GpuWork::GpuWork(memory::HostBlocks& host_blocks, memory::DeviceMemory& device_memory, int device,
                 const std::optional<GpuReduction>& reduction, std::int64_t between_bytes)
    : host_blocks_(host_blocks),
      device_memory_(device_memory),
      device_(device),
      reduction_(reduction),
      between_bytes_(static_cast<std::size_t>(between_bytes)),
      word_(reinterpret_cast<Epoch*>(host_blocks.allocate_block(word_bytes))) {
  try {
    word_on_gpu_ = reinterpret_cast<Epoch*>(device_memory.device_pointer(device, reinterpret_cast<std::byte*>(word_)));
    stream_ = device_memory.make_stream(device);
    if (between_bytes_ > 0) between_ = device_memory.allocate_unzeroed_block(device, between_bytes_);
  } catch (...) {
    host_blocks_.free_block(reinterpret_cast<std::byte*>(word_), word_bytes);
    throw;
  }
}

GpuWork::~GpuWork() {
  close();
  stream_.reset();
  if (between_ != nullptr) device_memory_.free_block(device_, between_, between_bytes_);
  host_blocks_.free_block(reinterpret_cast<std::byte*>(word_), word_bytes);
}

template <class Begin>
GpuWork::Ticket GpuWork::begin(Begin begin) {
  const std::lock_guard lock(mutex_);
  if (is_open_) {
    begin();
    has_begun_ = true;
  }
  return next_;
}

GpuWork::Ticket GpuWork::copy(const Move& move) {
  return begin([&] {
    if (move.from.layout == nullptr && move.to.layout == nullptr) {
      stream_->copy(move.to.address, move.from.address, static_cast<std::size_t>(move.bytes));
      return;
    }
    // The stream makes one move after another, so one place between serves all.
    const std::byte* row = move.from.address;
    if (const memory::GpuLayout* const layout = move.from.layout) {
      std::byte* const packed = move.to.layout == nullptr ? move.to.address : between_;
      layout->pack(*stream_, move.from.address, move.bytes, packed);
      row = packed;
    }
    if (const memory::GpuLayout* const layout = move.to.layout) {
      layout->unpack(*stream_, row, move.to.address, move.bytes);
    }
  });
}

GpuWork::Ticket GpuWork::reduce(const std::byte* from, std::byte* to, std::int64_t bytes) {
  return begin([&] {
    memory::ReduceElements arguments;
    arguments.to = to;
    arguments.from = const_cast<std::byte*>(from);
    arguments.count = static_cast<std::uint64_t>(bytes / reduction_->element_bytes);
    arguments.element = reduction_->element;
    arguments.by = reduction_->by;
    stream_->launch(memory::grid_for(bytes), arguments);
  });
}

void GpuWork::flush() {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) return;
  stream_->write(word_on_gpu_, next_);  // pairs with ended()
  ++next_;
  has_begun_ = false;
}

bool GpuWork::ended(Ticket ticket) const {
  return reached(std::atomic_ref(*word_).load(std::memory_order_acquire), ticket);
}

void GpuWork::check() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && ++looks_ % looks_each_question == 0) stream_->idle();
}

void GpuWork::open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
}

void GpuWork::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
  try {
    stream_->drain();
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
}

}  // namespace partita::collective
