// What a rank holds, and computes: on its host, or on a GPU.
#pragma once

#include <vector>

#include "apps/fft/hops.hpp"

namespace fft {

/// Where the blocks lie that an exchange moves, in memory that it can reach.
struct Buffers {
  Complex* sent = nullptr;
  Complex* received = nullptr;
};

/// The cells of a rank, in the order of the stage in which they are. For each hop the calls are, in this order: begin,
/// pack of each slice in turn, unpack of each slice in turn; behind the last hop of a transform, end.
class Work {
 public:
  virtual ~Work() = default;
  virtual Buffers buffers() const = 0;
  /// Cells of a stage, from and to memory of the host.
  virtual void load(const std::vector<Complex>& cells) = 0;
  virtual std::vector<Complex> cells(std::int64_t count) const = 0;

  /// When it returns the buffer of what is received may be overwritten.
  virtual void begin(const Hop& hop) = 0;
  /// Transforms the planes of this rank's slice; when it returns they lie packed, in the blocks of all peers.
  virtual void pack(int slice) = 0;
  /// Takes this slice of what every peer has sent.
  virtual void unpack(int slice) = 0;
  /// When it returns the transform is complete.
  virtual void end() = 0;
};

}  // namespace fft
