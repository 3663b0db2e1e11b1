#include "collective/gpu_work.hpp"

#include <algorithm>
#include <atomic>

namespace partita::collective {
namespace {

constexpr std::size_t word_bytes = 64;
constexpr unsigned looks_each_question = 64;
constexpr unsigned block_threads = 512;
/// Enough for the memory of any GPU to be the limit.
constexpr std::int64_t most_blocks = 1024;
constexpr std::int64_t bytes_each_block = block_threads * 16;

memory::Grid grid_for(std::int64_t bytes) {
  const std::int64_t blocks = (bytes + bytes_each_block - 1) / bytes_each_block;
  return {static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, most_blocks)), block_threads};
}

}  // namespace

GpuWork::GpuWork(memory::HostBlocks& host_blocks, memory::DeviceMemory& device_memory, int device,
                 const std::optional<GpuReduction>& reduction)
    : host_blocks_(host_blocks),
      device_memory_(device_memory),
      device_(device),
      reduction_(reduction),
      word_(reinterpret_cast<Epoch*>(host_blocks.allocate_block(word_bytes))) {
  try {
    word_on_gpu_ = reinterpret_cast<Epoch*>(device_memory.device_pointer(device, reinterpret_cast<std::byte*>(word_)));
    stream_ = device_memory.make_stream(device);
  } catch (...) {
    host_blocks_.free_block(reinterpret_cast<std::byte*>(word_), word_bytes);
    throw;
  }
}

GpuWork::~GpuWork() {
  close();
  stream_.reset();
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
  return begin([&] { stream_->copy(move.to, move.from, static_cast<std::size_t>(move.bytes)); });
}

GpuWork::Ticket GpuWork::reduce(const std::byte* from, std::byte* to, std::int64_t bytes) {
  return begin([&] {
    memory::ReduceElements arguments;
    arguments.to = to;
    arguments.from = const_cast<std::byte*>(from);
    arguments.count = static_cast<std::uint64_t>(bytes / reduction_->element_bytes);
    arguments.element = reduction_->element;
    arguments.by = reduction_->by;
    stream_->launch(grid_for(bytes), arguments);
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
