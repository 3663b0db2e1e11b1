#include "apps/halo/messages.hpp"

#include <cstring>
#include <partita/partita.hpp>
#include <utility>

#include "apps/support/decomposition.hpp"

namespace partita {
namespace {

constexpr std::ptrdiff_t cell_bytes = 8;

int length_in(const halo_shape& shape, halo_direction direction) {
  if (direction.down == 0) return shape.rows;
  return direction.across == 0 ? shape.columns : 1;
}

/// The first cell of a run along one edge or in one corner, and the distance to the next.
struct Run {
  std::byte* first = nullptr;
  std::ptrdiff_t step_bytes = 0;
};

/// Where rows, or columns, of the run in a direction begin: at the rim of `count` cells, or beyond it in the frame.
int begin_of(int direction, int count, bool in_frame) {
  if (direction < 0) return in_frame ? 0 : 1;
  if (direction > 0) return in_frame ? count + 1 : count;
  return 1;
}

Run run_of(const halo_block& block, std::size_t direction, bool in_frame) {
  const auto [down, across] = all_halo_directions[direction];
  const std::ptrdiff_t row = begin_of(down, block.rows, in_frame), column = begin_of(across, block.columns, in_frame);
  return {static_cast<std::byte*>(block.frame) + (row * block.stride + column) * cell_bytes,
          (down == 0 ? block.stride : 1) * cell_bytes};
}

void copy_cells(Run to, Run from, int cells) {
  if (to.step_bytes == cell_bytes && from.step_bytes == cell_bytes) {
    std::memcpy(to.first, from.first, static_cast<std::size_t>(cells * cell_bytes));
    return;
  }
  for (std::ptrdiff_t i = 0; i < cells; ++i) {
    std::memcpy(to.first + i * to.step_bytes, from.first + i * from.step_bytes, cell_bytes);
  }
}

Run skip(Run run, std::ptrdiff_t cells) {
  return {run.first + cells * run.step_bytes, run.step_bytes};
}

}  // namespace

halo_extent extent_of(const halo_shape& shape, std::size_t direction) {
  const int cells = length_in(shape, all_halo_directions[direction]);
  return {cells, apps::partitions_for(cells, cells == 1 ? 1 : shape.partitions)};
}

halo_messages::halo_messages(const halo_shape& shape, const halo_memory& memory) : calls_(memory) {
  std::ptrdiff_t cells = 0;
  for (std::size_t i = 0; i < halo_directions; ++i) {
    if (shape.neighbours[i] == MPI_PROC_NULL) continue;
    const halo_extent extent = extent_of(shape, i);
    messages_.push_back({i, shape.neighbours[i], extent.cells, extent.partitions});
    cells += extent.cells;
  }
  if (cells == 0) return;
  check(calls_.allocate(2 * cells * cell_bytes, MPI_INFO_NULL, static_cast<void*>(&memory_)));
  std::byte* next = memory_;
  for (halo_message& message : messages_) {
    message.sent = next;
    message.received = next + cells * cell_bytes;
    next += message.length * cell_bytes;
  }
}

void halo_messages::free_memory() {
  if (std::byte* const memory = std::exchange(memory_, nullptr); memory != nullptr) check(calls_.free(memory));
}

void halo_messages::pack(const halo_block& block) const {
  for (const halo_message& message : messages_) {
    copy_cells({message.sent, cell_bytes}, run_of(block, message.direction, false), message.length);
  }
}

void halo_messages::unpack(const halo_block& block) const {
  for (const halo_message& message : messages_) {
    copy_cells(run_of(block, message.direction, true), {message.received, cell_bytes}, message.length);
  }
}

void pack_partition(const halo_block& block, const halo_message& message, int partition) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(partition) * message.cells_each();
  copy_cells(skip({message.sent, cell_bytes}, first), skip(run_of(block, message.direction, false), first),
             message.cells_each());
}

void unpack_partition(const halo_block& block, const halo_message& message, int partition) {
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(partition) * message.cells_each();
  copy_cells(skip(run_of(block, message.direction, true), first), skip({message.received, cell_bytes}, first),
             message.cells_each());
}

}  // namespace partita
