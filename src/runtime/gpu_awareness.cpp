#include "runtime/gpu_awareness.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "core/mpi_check.hpp"
#include "core/mpi_takes_gpu.hpp"

namespace partita {
namespace {

GpuAwareness wish_of(GpuAware setting) {
  if (setting == GpuAware::off) return {false, "PARTITA_GPU_AWARE is off"};
  if (setting == GpuAware::on) return {true, "PARTITA_GPU_AWARE is on"};
  const std::optional<bool> answer = mpi_takes_cuda_memory();
  if (!answer) return {true, "the MPI does not say whether it takes GPU memory"};
  if (*answer) return {false, "the MPI takes GPU memory itself"};
  return {true, "the MPI says that it takes no GPU memory"};
}

}  // namespace

GpuAwareness agree_on_gpu_awareness(const Settings& settings, const World& world,
                                    const memory::DeviceMemory& device_memory) {
  GpuAwareness wish = wish_of(settings.gpu_aware);
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  const std::int64_t peers_from_bytes =
      device_memory.exists() ? settings.peer_collectives_from_bytes.value_or(never) : never;
  std::array<std::int64_t, 2> any = {wish.on ? 0 : 1, peers_from_bytes};
  PARTITA_MPI(Allreduce(MPI_IN_PLACE, any.data(), 2, MPI_INT64_T, MPI_MAX, world.control()));
  const auto [some_off, most_bytes] = any;
  if (wish.on && some_off != 0) return {false, "another rank of the job has it off"};
  if (wish.on && most_bytes != never) wish.peers_from_bytes = most_bytes;
  return wish;
}

}  // namespace partita
