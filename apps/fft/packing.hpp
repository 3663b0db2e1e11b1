// Where the cells of a block lie in its buffer and in a stage: hosts and kernels copy by it.
#pragma once

#include <cstdint>

#include "apps/fft/hops.hpp"

namespace fft {

/// A part of a block, some of its planes. Its cells lie side by side in the buffer; in the stage they lie
/// `stride[i]` apart along the i-th of the block's axes, the last of which is the fastest one in the buffer.
struct Piece {
  std::int64_t in_buffer = 0, in_stage = 0;     ///< of the first cell
  std::int64_t extent[3] = {}, stride[3] = {};  ///< planes, lines, cells of a line; kernels read them, too

  std::int64_t cells() const { return extent[0] * extent[1] * extent[2]; }
};

/// A slice of what this rank sends to `peer`, as it lies in the stage before the hop.
Piece piece_sent(const Hop& hop, int peer, int slice);
/// A slice of what `peer` sends, as it lies in the stage behind the hop.
Piece piece_received(const Hop& hop, int peer, int slice);

/// Copies cells of a stage to a buffer.
void pack(const Piece& piece, const Complex* stage, Complex* buffer);
/// Copies cells of a buffer to a stage, multiplied by `scale`.
void unpack(const Piece& piece, const Complex* buffer, Complex* stage, double scale);

}  // namespace fft
