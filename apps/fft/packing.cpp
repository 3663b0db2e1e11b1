#include "apps/fft/packing.hpp"

#include <algorithm>

namespace fft {
namespace {

/// Cells on a side of a tile: of two such tiles, read and written, the first-level cache holds all lines.
constexpr std::int64_t tile = 16;

Piece piece_of(const Route& route, const Box& block, const Places& places, int peer, int sender, int slice,
               const Box& whole, const Stage& stage) {
  // By axis: how far apart neighbours lie in the stage.
  std::array<std::int64_t, 3> apart{};
  std::int64_t cells = 1;
  for (int i = 2; i >= 0; --i) {
    const auto axis = static_cast<std::size_t>(stage.order[static_cast<std::size_t>(i)]);
    apart[axis] = cells;
    cells *= whole.axes[axis].count;
  }
  Piece piece;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto axis = static_cast<std::size_t>(route.from.order[i]);
    piece.extent[i] = block.axes[axis].count;
    piece.stride[i] = apart[axis];
    piece.in_stage += (block.axes[axis].first - whole.axes[axis].first) * apart[axis];
  }
  const Range planes = route.slice(sender, slice);
  piece.extent[0] = planes.count;
  piece.in_stage += planes.first * piece.stride[0];
  piece.in_buffer =
      places.displacements[static_cast<std::size_t>(peer)] + planes.first * piece.extent[1] * piece.extent[2];
  return piece;
}

/// For axes of which one is fastest on either side: tile by tile, so that each line of the cache is used as a whole.
template <class Copy>
void copy_in_tiles(std::int64_t rows, std::int64_t columns, const Copy& copy) {
  for (std::int64_t row = 0; row < rows; row += tile) {
    for (std::int64_t column = 0; column < columns; column += tile) {
      const std::int64_t row_end = std::min(row + tile, rows), column_end = std::min(column + tile, columns);
      for (std::int64_t j = column; j < column_end; ++j) {
        for (std::int64_t i = row; i < row_end; ++i) copy(i, j);
      }
    }
  }
}

}  // namespace

Piece piece_sent(const Hop& hop, int peer, int slice) {
  const Route& route = hop.route;
  return piece_of(route, route.sent[static_cast<std::size_t>(peer)], hop.sent, peer, route.self, slice, route.before,
                  route.from);
}

Piece piece_received(const Hop& hop, int peer, int slice) {
  const Route& route = hop.route;
  return piece_of(route, route.received[static_cast<std::size_t>(peer)], hop.received, peer, peer, slice, route.after,
                  route.to);
}

void pack(const Piece& piece, const Complex* stage, Complex* buffer) {
  if (piece.extent[2] == 0) return;  // there may be no stage
  Complex* to = buffer + piece.in_buffer;
  for (std::int64_t plane = 0; plane < piece.extent[0]; ++plane) {
    for (std::int64_t line = 0; line < piece.extent[1]; ++line) {
      const Complex* const from = stage + piece.in_stage + plane * piece.stride[0] + line * piece.stride[1];
      to = std::copy_n(from, piece.extent[2], to);  // a sender has the cells in the order of the block
    }
  }
}

void unpack(const Piece& piece, const Complex* buffer, Complex* stage, double scale) {
  const Complex* const from = buffer + piece.in_buffer;
  Complex* const to = stage + piece.in_stage;
  const std::int64_t line_cells = piece.extent[2], plane_cells = piece.extent[1] * line_cells;
  // Where lines of the stage go across planes of the block, a tile has a cell of each plane; else one of each line.
  const std::size_t across = piece.stride[0] == 1 ? 0 : 1, along = 1 - across;
  const std::int64_t from_across = across == 0 ? plane_cells : line_cells;
  const std::int64_t from_along = along == 0 ? plane_cells : line_cells;
  for (std::int64_t k = 0; k < piece.extent[along]; ++k) {
    copy_in_tiles(piece.extent[across], line_cells, [&](std::int64_t i, std::int64_t j) {
      to[k * piece.stride[along] + i * piece.stride[across] + j * piece.stride[2]] =
          scale * from[k * from_along + i * from_across + j];
    });
  }
}

}  // namespace fft
