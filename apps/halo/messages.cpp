#include "apps/halo/messages.hpp"

#include <cstring>
#include <partita/partita.hpp>
#include <utility>

#include "apps/support/decomposition.hpp"

namespace partita {
namespace {

constexpr std::ptrdiff_t cell_bytes = 8;

void copy_cells(halo_run to, halo_run from, int cells) {
  if (to.step_bytes == cell_bytes && from.step_bytes == cell_bytes) {
    std::memcpy(to.first, from.first, static_cast<std::size_t>(cells * cell_bytes));
    return;
  }
  for (std::ptrdiff_t i = 0; i < cells; ++i) {
    std::memcpy(to.first + i * to.step_bytes, from.first + i * from.step_bytes, cell_bytes);
  }
}

halo_run skip(halo_run run, std::ptrdiff_t cells) {
  return {run.first + cells * run.step_bytes, run.step_bytes};
}

}  // namespace

halo_run run_of(const framed_block& block, std::size_t direction, bool in_frame) {
  const halo_block<2> cells{{block.rows, block.columns}, 1, {block.stride, 1}};
  const halo_offset<2> offset = halo_offset_of<2>(direction);
  const halo_region<2> region = in_frame ? ghost_region(cells, offset) : own_region(cells, offset);
  const std::ptrdiff_t first = region.first[0] * block.stride + region.first[1];
  return {static_cast<std::byte*>(block.frame) + first * cell_bytes, (offset[0] == 0 ? block.stride : 1) * cell_bytes};
}

halo_extent extent_of(const halo_shape& shape, std::size_t direction) {
  const halo_region<2> region = own_region<2>({{shape.rows, shape.columns}, 1, {}}, halo_offset_of<2>(direction));
  const int cells = region.cells[0] * region.cells[1];
  return {cells, apps::partitions_for(cells, cells == 1 ? 1 : shape.partitions)};
}

halo_messages::halo_messages(const halo_shape& shape, const halo_memory& memory) : calls_(memory) {
  std::ptrdiff_t cells = 0;
  for (std::size_t i = 0; i < halo_directions<2>; ++i) {
    if (shape.neighbours[i] == MPI_PROC_NULL) continue;
    const halo_extent extent = extent_of(shape, i);
    messages_.push_back({i, shape.neighbours[i], extent.cells, extent.partitions});
    cells += extent.cells;
  }
  if (cells == 0) return;
  bytes_ = cells * cell_bytes;
  check(calls_.allocate(2 * bytes_, MPI_INFO_NULL, static_cast<void*>(&memory_)));
  std::byte* next = memory_;
  for (halo_message& message : messages_) {
    message.sent = next;
    message.received = next + bytes_;
    next += message.length * cell_bytes;
  }
}

void halo_messages::free_memory() {
  if (std::byte* const memory = std::exchange(memory_, nullptr); memory != nullptr) check(calls_.free(memory));
}

void halo_messages::pack(const framed_block& block) const {
  for (const halo_message& message : messages_) {
    copy_cells({message.sent, cell_bytes}, run_of(block, message.direction, false), message.length);
  }
}

void halo_messages::unpack(const framed_block& block) const {
  for (const halo_message& message : messages_) {
    copy_cells(run_of(block, message.direction, true), {message.received, cell_bytes}, message.length);
  }
}

void pack_partition(const framed_block& block, const halo_message& message, int partition) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(partition) * message.cells_each();
  copy_cells(skip({message.sent, cell_bytes}, first), skip(run_of(block, message.direction, false), first),
             message.cells_each());
}

void unpack_partition(const framed_block& block, const halo_message& message, int partition) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(partition) * message.cells_each();
  copy_cells(skip(run_of(block, message.direction, true), first), skip({message.received, cell_bytes}, first),
             message.cells_each());
}

}  // namespace partita
