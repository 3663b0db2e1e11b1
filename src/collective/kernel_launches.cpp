// Collectives whose epochs kernels open, as kernels that the library launches.
#include <fmt/format.h>

#include <algorithm>

#include "collective/kernel_collective.hpp"
#include "memory/kernels.hpp"

namespace partita::collective {
namespace {

/// The blocks of a kernel must run at once. With so few, several such kernels have room on a GPU side by side.
constexpr std::int64_t most_blocks = 64;

/// Ranks need not have the same grid. A block for each strip and a thread for each unit of one, as far as that goes.
memory::Grid grid_for(std::int64_t block_bytes) {
  constexpr std::int64_t warp_threads = 32;
  constexpr auto unit_bytes = static_cast<std::int64_t>(device::area_unit_bytes);
  constexpr auto strip_units = static_cast<std::int64_t>(device::most_share_units);
  const std::int64_t units = (block_bytes + unit_bytes - 1) / unit_bytes;
  const std::int64_t warps = (std::min(units, strip_units) + warp_threads - 1) / warp_threads;
  const std::int64_t threads =
      std::clamp<std::int64_t>(warps * warp_threads, warp_threads, memory::DoCollective::most_threads);
  const std::int64_t blocks = std::clamp<std::int64_t>((units + strip_units - 1) / strip_units, 1, most_blocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads), true};
}

}  // namespace

std::string KernelCollective::why_not_on(const memory::Stream& stream, bool) const {
  if (stream.device() == place_.device) return {};
  return fmt::format("its buffers are memory of GPU {}, and the stream is one of GPU {}", place_.device,
                     stream.device());
}

/// The words that count epochs lie in GPU memory, so that each launch of a graph is the next one.
void KernelCollective::enqueue_start(memory::Stream& stream, bool, memory::MessageRun&) {
  throw_if_over();
  stream.launch(grid_for(block_bytes_), memory::DoCollective{device_.for_own_kernels()});
}

/// Whoever gave the request up has told why.
void KernelCollective::pass_wait() {
  if (given_up()) return;
  throw_if_failed();
  if (device_.exists()) device_.check();
}

}  // namespace partita::collective
