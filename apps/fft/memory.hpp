// How much memory a run takes, counted without overflow. Pure arithmetic, without MPI and CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace fft {

/// Bytes of so many cells and `more` bytes beside them; where these are too many for the number, the largest number:
/// more fit no address space.
std::int64_t bytes_of(std::int64_t cells, std::int64_t more = 0);

/// What a rank asks of its GPU, and how much it has found free there.
struct GpuDemand {
  std::array<char, 16> gpu{};  ///< its name, different for all GPUs of the job
  std::int64_t needed_bytes = 0, free_bytes = 0;
};

struct Shortage {
  std::int64_t needed_bytes = 0, free_bytes = 0;

  bool operator==(const Shortage&) const = default;
};

/// The GPU that lacks most, nothing if all have enough. The ranks of one share it: what they need counts together, and
/// what the one of them found free that found least. `demands`: one for each rank.
std::optional<Shortage> shortage_of(const std::vector<GpuDemand>& demands);

}  // namespace fft
