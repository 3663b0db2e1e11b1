#include "two_sided/host_mirror.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "two_sided/buffer_place.hpp"

namespace partita {

HostMirror::HostMirror(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks,
                       BufferUse use)
    : lanes_(lanes),
      lane_(lanes.of(device)),
      device_(device),
      user_(user),
      use_(use),
      first_byte_(std::numeric_limits<std::int64_t>::max()),
      behind_last_byte_(std::numeric_limits<std::int64_t>::min()) {
  MPI_Datatype known = MPI_DATATYPE_NULL;
  Layout layout;
  BufferPlace place(lanes.device_memory(), device);
  for (const ElementBlock& block : blocks) {
    if (block.count <= 0) continue;
    if (block.datatype != known) layout = Layout::of(known = block.datatype);
    if (layout.size_bytes() == 0) continue;
    place.check(shifted(user, block.offset_bytes), layout, user == MPI_BOTTOM);
    add(block, layout, device);
  }
  event_ = lane_.take_event();
  memory_ = lanes.take_memory(size_bytes());
}

HostMirror::~HostMirror() {
  lanes_.end(lane_, std::move(event_));
  is_the_mpis_ ? lanes_.leave(memory_) : lanes_.give_back(memory_, size_bytes());
}

void HostMirror::add(const ElementBlock& block, const Layout& layout, int device) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t behind_last = std::numeric_limits<std::int64_t>::min();
  for (const Layout::Run& run : layout.runs()) {
    const std::int64_t last_piece = run.offset_bytes + (run.count - 1) * run.stride_bytes;
    first = std::min({first, run.offset_bytes, last_piece});
    behind_last = std::max({behind_last, run.offset_bytes + run.length_bytes, last_piece + run.length_bytes});
  }
  const std::int64_t to_last_element = (block.count - 1) * layout.extent_bytes();
  first_byte_ = std::min(first_byte_, block.offset_bytes + first + std::min<std::int64_t>(to_last_element, 0));
  behind_last_byte_ =
      std::max(behind_last_byte_, block.offset_bytes + behind_last + std::max<std::int64_t>(to_last_element, 0));
  if (layout.contiguous())
    return add_stretch({block.offset_bytes + layout.first_byte(), block.count * layout.size_bytes()});
  scattered_.push_back(
      {block.offset_bytes, block.count,
       std::make_unique<HostImage>(lanes_, device, shifted(user_, block.offset_bytes), block.count, layout)});
}

/// Neighbours are copied together.
void HostMirror::add_stretch(Stretch stretch) {
  if (!stretches_.empty() && stretches_.back().first_byte + stretches_.back().size_bytes == stretch.first_byte) {
    stretches_.back().size_bytes += stretch.size_bytes;
  } else {
    stretches_.push_back(stretch);
  }
}

void HostMirror::copy_stretches(bool to_gpu) {
  if (stretches_.empty()) return;
  check_still_in_gpu(lanes_.device_memory(), shifted(user_, stretches_.front().first_byte), device_);
  lane_.ask(GpuLane::Work::copies, *event_, [&](memory::Stream& stream) {
    for (const auto& [first_byte, size_bytes] : stretches_) {
      std::byte* const here = at(first_byte);
      std::byte* const there = shifted(user_, first_byte);
      stream.copy(to_gpu ? there : here, to_gpu ? here : there, static_cast<std::size_t>(size_bytes));
    }
  });
}

void HostMirror::fetch() {
  begin_fetch();
  await_delivery();
  unpack();
}

void HostMirror::begin_fetch() {
  if (use_ == BufferUse::writes) return;
  copy_stretches(false);
  for (const Scattered& each : scattered_) each.image->begin_fetch();
  is_to_unpack_ = true;
}

bool HostMirror::fetched() {
  if (!settled()) return false;
  unpack();
  return true;
}

/// Once.
void HostMirror::unpack() {
  if (!std::exchange(is_to_unpack_, false)) return;
  for (const auto& [offset_bytes, count, image] : scattered_)
    image->layout().unpack(image->bytes(), at(offset_bytes), 0, count);
}

void HostMirror::begin_delivery() {
  if (use_ == BufferUse::reads) return;
  copy_stretches(true);
  for (const auto& [offset_bytes, count, image] : scattered_) {
    image->layout().pack(at(offset_bytes), 0, count, image->bytes());
    image->begin_delivery(image->size_bytes());
  }
}

bool HostMirror::settled() {
  return event_->passed() &&
         std::ranges::all_of(scattered_, [](const Scattered& each) { return each.image->settled(); });
}

void HostMirror::await_delivery() {
  lanes_.await(*event_);
  for (const Scattered& each : scattered_) each.image->await_delivery();
}

}  // namespace partita
