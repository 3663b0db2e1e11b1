#include "runtime/gpu_awareness.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>

#include "core/agreement.hpp"
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

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

std::optional<std::int64_t> from_bytes(std::int64_t bytes) {
  return bytes == never ? std::nullopt : std::optional(bytes);
}

/// What ranks tell each other, of which the largest of all counts.
enum Wish : std::uint8_t {
  some_off,
  some_left,
  some_streams,
  no_cuda,
  some_gpus,
  peers_off,
  peers_measured,
  peers_bytes,
  offers_bytes,
  wishes
};
using Wishes = std::array<std::int64_t, wishes>;

std::int64_t is(bool true_here) {
  return true_here ? 1 : 0;
}

/// The same on all ranks.
const char* why_no_peers(bool on, const Wishes& any) {
  if (!on) return "Partita takes no GPU memory in MPI's own calls";
  if (any[peers_off] != 0) return "a rank has PARTITA_PEER_COLLECTIVES off";
  if (any[no_cuda] != 0) return "a rank has a Partita that was built without CUDA";
  if (any[some_gpus] == 0) return "no rank has a GPU";
  return "";
}

/// Collective. What a rank asks for no call does, where GPU memory is left to the MPI.
void check_streams(const Settings& settings, const GpuAwareness& agreed, const World& world) {
  std::optional<Error> failure;
  if (!agreed.on && settings.call_stream != CallStream::none) {
    failure = Error(ErrorClass::arg,
                    ": the environment sets PARTITA_GPU_AWARE_STREAM={}, but GPU memory in MPI's own calls is left to "
                    "the MPI: {}; expected is PARTITA_GPU_AWARE=on, or auto, on all ranks",
                    text_of(settings.call_stream), agreed.why);
  }
  fail_together(world.control(), failure);
}

/// No message that a program sends begins like this by chance.
OfferMark agree_on_mark(const World& world) {
  OfferMark mark{};
  std::random_device random;
  for (std::uint64_t& half : mark) half = std::uint64_t{random()} << 32 | random();
  PARTITA_MPI(Bcast(mark.data(), static_cast<int>(mark.size()), MPI_UINT64_T, 0, world.control()));
  return mark;
}

}  // namespace

GpuAwareness agree_on_gpu_awareness(const Settings& settings, const World& world,
                                    const memory::DeviceMemory& device_memory) {
  GpuAwareness wish = wish_of(settings.gpu_aware);
  // A thread moves what is offered while the program is elsewhere.
  const bool has_thread = settings.progress_thread && world.thread_level() == MPI_THREAD_MULTIPLE;
  Wishes any{};
  any[some_off] = is(settings.gpu_aware == GpuAware::off);
  any[some_left] = is(!wish.on);
  any[some_streams] = is(settings.call_stream != CallStream::none);
  any[no_cuda] = is(!device_memory.exists());
  any[some_gpus] = is(device_memory.may_come());
  any[peers_off] = is(settings.peer_collectives.from == PeerCollectiveSize::From::never);
  any[peers_measured] = is(settings.peer_collectives.from == PeerCollectiveSize::From::measured);
  any[peers_bytes] = settings.peer_collectives.bytes;
  any[offers_bytes] = device_memory.exists() && has_thread ? settings.peer_messages_from_bytes.value_or(never) : never;
  PARTITA_MPI(Allreduce(MPI_IN_PLACE, any.data(), wishes, MPI_INT64_T, MPI_MAX, world.control()));
  const bool on = any[some_left] == 0 || (any[some_off] == 0 && any[some_streams] != 0);
  if (wish.on && !on) wish = {false, "another rank of the job has it off"};
  if (!wish.on && on) wish = {true, "PARTITA_GPU_AWARE_STREAM names a stream, behind which no call of the MPI's comes"};
  if (any[some_streams] != 0) check_streams(settings, wish, world);
  wish.why_no_peers = why_no_peers(on, any);
  if (!wish.on) return wish;
  if (wish.why_no_peers.empty()) wish.peer_sizes = PeerSizes{any[peers_bytes], any[peers_measured] != 0};
  wish.offers_from_bytes = from_bytes(any[offers_bytes]);
  if (wish.offers_from_bytes) wish.offer_mark = agree_on_mark(world);
  return wish;
}

}  // namespace partita
