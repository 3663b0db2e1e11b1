// What collectives by peer memory need of the runtime.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/watch.hpp"
#include "memory/device.hpp"
#include "partitioned/request_services.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/peer_board.hpp"

namespace partita {

/// The runtime makes and owns all of it.
struct PeerServices {
  const RequestServices& requests;
  GpuLanes& lanes;
  LeftBoards& left_boards;
  std::optional<std::int64_t> from_bytes;  ///< the same on all ranks; none: never
  /// Blocks until `done` returns true, making progress; watched. Throws Error.
  std::function<void(const Waiting&, const std::function<bool()>& done)> wait_until;
  /// Which mappings may be closed where the program frees something.
  std::function<memory::Closing()> closing;
};

}  // namespace partita
