#include "collective/memory.hpp"

#include <cstring>
#include <utility>

namespace partita::collective {
namespace {

constexpr std::size_t line_bytes = 64;

}  // namespace

OwnBytes::OwnBytes(const Home& home, std::size_t size_bytes)
    : home_(home),
      size_bytes_(size_bytes),
      data_(home.is_gpu() ? home.device_memory.allocate_block(home.place.device, size_bytes)
                          : home.host_blocks.allocate_block(size_bytes)) {}

OwnBytes::~OwnBytes() {
  if (home_.is_gpu()) {
    home_.device_memory.free_block(home_.place.device, data_, size_bytes_);
  } else {
    home_.host_blocks.free_block(data_, size_bytes_);
  }
}

CollectiveMemory::CollectiveMemory(const Home& home, int partitions, Form form, std::vector<Block> sent,
                                   std::vector<Block> received, const std::vector<std::int64_t>& slot_bytes)
    : home_(home),
      partitions_(partitions),
      form_(form),
      sent_(std::move(sent)),
      received_(std::move(received)),
      slot_bytes_(slot_bytes) {
  std::size_t slots_bytes = 0;
  for (const std::int64_t bytes : slot_bytes_) {
    slot_offsets_.push_back(slots_bytes);
    const std::size_t all = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(partitions);
    slots_bytes += (all + line_bytes - 1) / line_bytes * line_bytes;
  }
  if (slots_bytes > 0) slots_ = std::make_unique<OwnBytes>(home_, slots_bytes);
  if (!home_.is_gpu()) return;
  add_gpu_layouts(sent_);
  add_gpu_layouts(received_);
}

void CollectiveMemory::add_gpu_layouts(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) {
    if (block.layout->contiguous()) continue;
    gpu_layouts_.try_emplace(block.layout.get(), home_.device_memory, home_.place.device, *block.layout);
  }
}

const Block& CollectiveMemory::block(const Region& region) const {
  return (region.buffer == Buffer::sent ? sent_ : received_)[static_cast<std::size_t>(region.block)];
}

std::int64_t CollectiveMemory::unit_bytes(const Layout& layout) const {
  return form_ == Form::packed ? layout.size_bytes() : layout.extent_bytes();
}

const memory::Place& CollectiveMemory::place(const Region& region) const {
  return region.buffer == Buffer::slots ? home_.place : block(region).place;
}

std::byte* CollectiveMemory::gapless(const Region& region, int partition) const {
  if (region.buffer == Buffer::slots) {
    const auto slot = static_cast<std::size_t>(region.block);
    return slots_->data() + slot_offsets_[slot] + partition * slot_bytes_[slot] + region.first;
  }
  const Block& block = this->block(region);
  if (!block.layout->contiguous()) return nullptr;
  return block.address + block.layout->first_byte() + partition * block.count * block.layout->size_bytes() +
         region.first;
}

Spot CollectiveMemory::spot(const Region& region, int partition) const {
  if (std::byte* const address = gapless(region, partition)) return {address};
  const Block& block = this->block(region);
  const std::int64_t first = partition * block.count + region.first / block.layout->size_bytes();
  return {block.address + first * block.layout->extent_bytes(), &gpu_layouts_.at(block.layout.get())};
}

bool CollectiveMemory::is_whole(const Region& region) const {
  const std::int64_t slice_bytes = region.buffer == Buffer::slots
                                       ? slot_bytes_[static_cast<std::size_t>(region.block)]
                                       : block(region).count * unit_bytes(*block(region).layout);
  return region.first == 0 && region.bytes == slice_bytes;
}

std::byte* CollectiveMemory::row(const Region& region) const {
  return partitions_ == 1 || is_whole(region) ? gapless(region, 0) : nullptr;
}

std::byte* CollectiveMemory::operand(const Region& region, int partition) const {
  if (region.buffer == Buffer::slots) return gapless(region, partition);
  const Block& block = this->block(region);
  return block.address + partition * block.count * block.layout->extent_bytes() + region.first;
}

void CollectiveMemory::read(const Region& region, int partition, std::byte* bytes) const {
  if (const std::byte* from = gapless(region, partition)) {
    std::memcpy(bytes, from, static_cast<std::size_t>(region.bytes));
    return;
  }
  const Block& block = this->block(region);
  const Layout& layout = *block.layout;
  const std::int64_t unit = unit_bytes(layout);
  const std::int64_t first = partition * block.count + region.first / unit;
  const std::int64_t count = region.bytes / unit;
  if (form_ == Form::packed) return layout.pack(block.address, first, count, bytes);
  std::vector<std::byte> packed(static_cast<std::size_t>(count * layout.size_bytes()));
  layout.pack(block.address, first, count, packed.data());
  layout.unpack(packed.data(), bytes, 0, count);
}

void CollectiveMemory::write(const Region& region, int partition, const std::byte* bytes) const {
  if (std::byte* to = gapless(region, partition)) {
    std::memcpy(to, bytes, static_cast<std::size_t>(region.bytes));
    return;
  }
  const Block& block = this->block(region);
  const Layout& layout = *block.layout;
  const std::int64_t unit = unit_bytes(layout);
  const std::int64_t first = partition * block.count + region.first / unit;
  const std::int64_t count = region.bytes / unit;
  if (form_ == Form::packed) return layout.unpack(bytes, block.address, first, count);
  std::vector<std::byte> packed(static_cast<std::size_t>(count * layout.size_bytes()));
  layout.pack(bytes, 0, count, packed.data());
  layout.unpack(packed.data(), block.address, first, count);
}

void CollectiveMemory::copy(const Region& from, const Region& to, int partition) const {
  if (std::byte* into = gapless(to, partition)) return read(from, partition, into);
  if (const std::byte* bytes = gapless(from, partition)) return write(to, partition, bytes);
  std::vector<std::byte> between(static_cast<std::size_t>(from.bytes));
  read(from, partition, between.data());
  write(to, partition, between.data());
}

}  // namespace partita::collective
