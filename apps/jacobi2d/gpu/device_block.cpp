#include "apps/jacobi2d/gpu/device_block.hpp"

#include <algorithm>
#include <vector>

#include "apps/jacobi2d/halo.hpp"

namespace jacobi2d::gpu {
namespace {

/// Runs begin at boundaries of 128 bytes.
constexpr std::ptrdiff_t run_doubles(int length) {
  return (static_cast<std::ptrdiff_t>(length) + 15) / 16 * 16;
}

/// A side without a neighbour is cut into pieces of about so many cells.
constexpr int piece_cells = 1024;

Shape shape_of(const Block& block, const std::array<int, side_count>& partitions) {
  Shape shape{};
  shape.rows = block.rows;
  shape.columns = block.columns;
  shape.stride = stride_of(block.columns);
  for (const Side side : all_sides) {
    const std::size_t i = index_of(side);
    const int length = side == Side::north || side == Side::south ? block.columns : block.rows;
    shape.neighbour[i] = partitions[i] > 0;
    shape.partitions[i] = shape.neighbour[i] ? partitions[i] : (length + piece_cells - 1) / piece_cells;
  }
  return shape;
}

std::size_t doubles_of(const Block& block) {
  return static_cast<std::size_t>(size_of(block.rows, block.columns));
}

}  // namespace

DeviceBlock::DeviceBlock(const Block& block, const std::array<int, side_count>& partitions)
    : shape_(shape_of(block, partitions)),
      offsets_{0, run_doubles(block.columns), 2 * run_doubles(block.columns),
               2 * run_doubles(block.columns) + run_doubles(block.rows)},
      set_doubles_(2 * run_doubles(block.columns) + 2 * run_doubles(block.rows)),
      first_field_(doubles_of(block)),
      second_field_(doubles_of(block)),
      buffers_(static_cast<std::size_t>(2 * halo_sets * set_doubles_ + most_ranks)) {}

int DeviceBlock::length(Side side) const {
  return side == Side::north || side == Side::south ? shape_.columns : shape_.rows;
}

void DeviceBlock::upload(const Field& start) {
  for (double* const field : {first_field_.data(), second_field_.data()}) {
    PARTITA_APPS_CUDA(cudaMemcpy(field, start.cells, first_field_.bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<double> halo(static_cast<std::size_t>(set_doubles_), 0.0);
  for (const Side side : all_sides) {
    const std::ptrdiff_t step = side == Side::north || side == Side::south ? 1 : start.stride;
    const double* cell = halo_cells(start, side);
    double* const run = halo.data() + offset(side);
    for (int i = 0; i < length(side); ++i) run[i] = cell[i * step];
  }
  for (int set = 0; set < halo_sets; ++set) {
    PARTITA_APPS_CUDA(cudaMemcpy(halos(set), halo.data(), halo.size() * sizeof(double), cudaMemcpyHostToDevice));
  }
  PARTITA_APPS_CUDA(cudaDeviceSynchronize());
}

void DeviceBlock::download(int index, const Field& field) const {
  PARTITA_APPS_CUDA(cudaMemcpy(field.cells, this->field(index), first_field_.bytes(), cudaMemcpyDeviceToHost));
}

Sweep DeviceBlock::sweep(int from, int read_set, int write_set, unsigned long long* change) const {
  Sweep sweep{};
  sweep.from = field(from);
  sweep.to = field(1 - from);
  for (const Side side : all_sides) {
    sweep.halo[index_of(side)] = halo(read_set, side);
    sweep.edge[index_of(side)] = edge(write_set, side);
  }
  sweep.change = change;
  return sweep;
}

}  // namespace jacobi2d::gpu
