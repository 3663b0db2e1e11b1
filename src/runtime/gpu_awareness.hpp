// Whether the MPI's own calls take GPU memory, by Partita or by the MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/settings.hpp"
#include "core/world.hpp"
#include "memory/device.hpp"
#include "two_sided/offer_record.hpp"
#include "two_sided/peer_sizes.hpp"

namespace partita {

struct GpuAwareness {
  bool on = false;  ///< the drop-in gives GPU memory to Partita
  std::string why;  ///< this rank's reason; a clause
  /// From which size on the MPI's blocking collectives go by peer memory; none: never.
  std::optional<PeerSizes> peer_sizes = std::nullopt;
  std::string why_no_peers{};  ///< why none; a clause, empty where some do
  /// From so many bytes on, messages between GPUs of a node are offered; none: never.
  std::optional<std::int64_t> offers_from_bytes = std::nullopt;
  OfferMark offer_mark{};  ///< by which the job knows its offers
};

/// The same answer on all ranks, but for reasons: Partita takes GPU memory where no rank is against it, by its setting
/// or because its MPI does; from as many bytes on by peer memory, and by offers, as the rank wants that wants the most.
/// By peer memory only where some rank can come to have GPU memory. A stream that a rank's environment names takes the
/// place of what its MPI does by itself, and with a rank that has it off is an error on all. Collective. Throws Error.
GpuAwareness agree_on_gpu_awareness(const Settings& settings, const World& world,
                                    const memory::DeviceMemory& device_memory);

}  // namespace partita
