#include "two_sided/host_image.hpp"

#include <algorithm>
#include <utility>

#include "core/backoff.hpp"

namespace partita {
namespace {

constexpr std::size_t known_layouts = 16;

std::size_t as_size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

}  // namespace

GpuLane::GpuLane(memory::DeviceMemory& device_memory, int device)
    : device_memory_(device_memory), device_(device), stream_(device_memory.make_stream(device)) {}

std::unique_ptr<memory::Event> GpuLane::take_event() {
  const std::lock_guard lock(mutex_);
  if (!events_.empty()) {
    std::unique_ptr<memory::Event> event = std::move(events_.back());
    events_.pop_back();
    return event;
  }
  events_.reserve(events_made_ + 1);
  std::unique_ptr<memory::Event> event = device_memory_.make_event(device_);
  ++events_made_;
  return event;
}

void GpuLane::give_back(std::unique_ptr<memory::Event> event) noexcept {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

std::shared_ptr<const memory::GpuLayout> GpuLane::on_gpu(const Layout& layout) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(layouts_, [&](const Known& known) {
    return known.extent_bytes == layout.extent_bytes() && known.runs == layout.runs();
  });
  if (found != layouts_.end()) return found->on_gpu;
  if (layouts_.size() == known_layouts) layouts_.erase(layouts_.begin());
  layouts_.push_back({layout.runs(), layout.extent_bytes(),
                      std::make_shared<const memory::GpuLayout>(device_memory_, device_, layout)});
  return layouts_.back().on_gpu;
}

GpuLane& GpuLanes::of(int device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<GpuLane>& lane = lanes_[device];
  if (lane == nullptr) lane = std::make_unique<GpuLane>(device_memory_, device);
  return *lane;
}

HostImage::HostImage(GpuLanes& lanes, int device, std::byte* user, std::int64_t count, Layout layout)
    : lanes_(lanes),
      lane_(lanes.of(device)),
      user_(user),
      count_(count),
      layout_(std::move(layout)),
      on_gpu_(layout_.contiguous() ? nullptr : lane_.on_gpu(layout_)),
      bytes_(lanes.host_blocks().allocate_block(as_size(size_bytes()))) {
  try {
    bytes_on_gpu_ = lanes.device_memory().device_pointer(device, bytes_);
    event_ = lane_.take_event();
  } catch (...) {
    lanes.host_blocks().free_block(bytes_, as_size(size_bytes()));
    throw;
  }
}

HostImage::~HostImage() {
  try {
    wait_until_settled();
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
  lane_.give_back(std::move(event_));
  if (!is_the_mpis_) lanes_.host_blocks().free_block(bytes_, as_size(size_bytes()));
}

void HostImage::fetch() {
  lane_.ask(*event_, [&](memory::Stream& stream) {
    if (on_gpu_ == nullptr) {
      stream.copy(bytes_, user_ + layout_.first_byte(), as_size(size_bytes()));
    } else {
      on_gpu_->pack(stream, user_, size_bytes(), bytes_on_gpu_);
    }
  });
  wait_until_settled();
}

void HostImage::begin_delivery(std::int64_t size_bytes) {
  if (size_bytes == 0) return;
  lane_.ask(*event_, [&](memory::Stream& stream) {
    if (on_gpu_ == nullptr) {
      stream.copy(user_ + layout_.first_byte(), bytes_, as_size(size_bytes));
    } else {
      on_gpu_->unpack(stream, bytes_on_gpu_, user_, size_bytes);
    }
  });
}

bool HostImage::settled() {
  return event_->passed();
}

void HostImage::wait_until_settled() {
  Backoff backoff(lanes_.spare_cores());
  while (!settled()) backoff.pause();
}

}  // namespace partita
