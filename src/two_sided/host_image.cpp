#include "two_sided/host_image.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "core/backoff.hpp"
#include "core/element_block.hpp"
#include "core/log.hpp"
#include "two_sided/buffer_place.hpp"

namespace partita {
namespace {

constexpr std::size_t known_layouts = 16;
constexpr std::size_t smallest_bytes = 4096;
constexpr std::size_t kept_at_most_bytes = std::size_t{256} << 20;
constexpr auto long_for_an_event = std::chrono::seconds(20);

std::size_t as_size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

std::size_t rounded(std::int64_t size_bytes) {
  return std::max(std::bit_ceil(as_size(size_bytes)), smallest_bytes);
}

}  // namespace

GpuLane::GpuLane(memory::DeviceMemory& device_memory, int device) : device_memory_(device_memory), device_(device) {
  copies_.stream = device_memory.make_stream(device);
  kernels_.stream = device_memory.make_stream(device);
}

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

/// The caller holds the lock.
std::shared_ptr<const memory::GpuLayout> GpuLane::known(const Layout& layout) const {
  const auto found = std::ranges::find_if(layouts_, [&](const Known& known) {
    return known.extent_bytes == layout.extent_bytes() && known.runs == layout.runs();
  });
  return found == layouts_.end() ? nullptr : found->on_gpu;
}

/// A new one is made without the lock, which others take for work that must not wait for it.
std::shared_ptr<const memory::GpuLayout> GpuLane::on_gpu(const Layout& layout) {
  {
    const std::lock_guard lock(mutex_);
    if (auto found = known(layout)) return found;
  }
  auto made = std::make_shared<const memory::GpuLayout>(device_memory_, device_, layout);
  std::shared_ptr<const memory::GpuLayout> forgotten;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  if (layouts_.size() == known_layouts) {
    forgotten = std::move(layouts_.front().on_gpu);
    layouts_.erase(layouts_.begin());
  }
  layouts_.push_back({layout.runs(), layout.extent_bytes(), made});
  return made;
}

GpuLanes::~GpuLanes() {
  for (const auto& [size_bytes, kept] : kept_) {
    for (std::byte* const memory : kept.memory) host_blocks_.free_block(memory, size_bytes);
  }
}

GpuLane& GpuLanes::of(int device) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<GpuLane>& lane = lanes_[device];
  if (lane == nullptr) lane = std::make_unique<GpuLane>(device_memory_, device);
  return *lane;
}

std::byte* GpuLanes::take_memory(std::int64_t size_bytes) {
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[size];
  if (!kept.memory.empty()) {
    std::byte* const memory = kept.memory.back();
    kept.memory.pop_back();
    kept_bytes_ -= size;
    return memory;
  }
  kept.memory.reserve(kept.taken + 1);
  std::byte* const memory = host_blocks_.allocate_block(size);
  ++kept.taken;
  return memory;
}

void GpuLanes::give_back(std::byte* memory, std::int64_t size_bytes) noexcept {
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ + size > kept_at_most_bytes) {
    --kept_[size].taken;
    return host_blocks_.free_block(memory, size);
  }
  kept_[size].memory.push_back(memory);
  kept_bytes_ += size;
}

const GpuLanes::LongWait GpuLanes::of_copies = {
    "a copy of a message between GPU and host memory",
    "does it stand behind a stream that waits, or a kernel that fills the GPU? CUDA_DEVICE_MAX_CONNECTIONS=32 keeps "
    "streams apart"};

/// A copy may stand behind a stream that waits in a queue, which goes on by steps that this thread takes.
void GpuLanes::await(memory::Event& event, const LongWait& told) const {
  using Clock = std::chrono::steady_clock;
  Backoff backoff(spare_cores_);
  auto next_word = Clock::time_point::max();
  while (!event.passed()) {
    const bool wants_steps = told.may_be_long || progress_.wanted();
    if (wants_steps) progress_.poll();
    if (!backoff.pause(wants_steps ? Backoff::pauses_of_steps : 1)) continue;
    const auto now = Clock::now();
    if (next_word == Clock::time_point::max()) next_word = now + long_for_an_event;
    if (now < next_word) continue;
    next_word = now + long_for_an_event;
    log("{} has waited for {} s; {}", told.who, long_for_an_event.count(), told.why);
  }
}

void GpuLanes::end(GpuLane& lane, std::unique_ptr<memory::Event> event) const noexcept {
  try {
    await(*event);
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
  lane.give_back(std::move(event));
}

HostImage::HostImage(GpuLanes& lanes, int device, std::byte* user, std::int64_t count, Layout layout)
    : lanes_(lanes),
      lane_(lanes.of(device)),
      device_(device),
      user_(user),
      count_(count),
      layout_(std::move(layout)),
      on_gpu_(checked_layout()),
      bytes_(lanes.take_memory(size_bytes())) {
  try {
    bytes_on_gpu_ = lanes.device_memory().device_pointer(device, bytes_);
    event_ = lane_.take_event();
  } catch (...) {
    lanes.give_back(bytes_, size_bytes());
    throw;
  }
}

HostImage::~HostImage() {
  lanes_.end(lane_, std::move(event_));
  is_the_mpis_ ? lanes_.leave(bytes_) : lanes_.give_back(bytes_, size_bytes());
}

/// A kernel that reads what its GPU does not reach ends the work of the process on it.
std::shared_ptr<const memory::GpuLayout> HostImage::checked_layout() {
  if (layout_.contiguous()) return nullptr;
  if (user_ == MPI_BOTTOM) BufferPlace(lanes_.device_memory(), device_).check(user_, layout_, true);
  return lane_.on_gpu(layout_);
}

/// The program may have freed it since the call.
void HostImage::check_user() const {
  check_still_in_gpu(lanes_.device_memory(), first_of_user(), device_);
}

std::byte* HostImage::first_of_user() const {
  return shifted(user_, layout_.first_byte());
}

void HostImage::fetch() {
  begin_fetch();
  lanes_.await(*event_);
}

void HostImage::begin_fetch() {
  check_user();
  lane_.ask(work(), *event_, [&](memory::Stream& stream) {
    if (on_gpu_ == nullptr) {
      stream.copy(bytes_, first_of_user(), as_size(size_bytes()));
    } else {
      on_gpu_->pack(stream, user_, size_bytes(), bytes_on_gpu_);
    }
  });
}

void HostImage::begin_delivery(std::int64_t size_bytes) {
  if (size_bytes == 0) return;
  check_user();
  lane_.ask(work(), *event_, [&](memory::Stream& stream) {
    if (on_gpu_ == nullptr) {
      stream.copy(first_of_user(), bytes_, as_size(size_bytes));
    } else {
      on_gpu_->unpack(stream, bytes_on_gpu_, user_, size_bytes);
    }
  });
}

bool HostImage::settled() {
  return event_->passed();
}

}  // namespace partita
