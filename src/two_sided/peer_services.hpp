// What collectives by peer memory need of the runtime.
#pragma once

#include <functional>
#include <optional>

#include "core/watch.hpp"
#include "memory/device.hpp"
#include "partitioned/request_services.hpp"
#include "two_sided/constructors.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/own_comms.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_sizes.hpp"

namespace partita {

/// The runtime makes and owns all of it.
struct PeerServices {
  const RequestServices& requests;
  GpuLanes& lanes;
  LeftBoards& left_boards;
  OwnComms& own_comms;
  Constructors& constructors;
  std::optional<PeerSizes> sizes;  ///< the same on all ranks; none: never
  /// Blocks until `done` returns true, making progress; watched. Throws Error.
  std::function<void(const Waiting&, const std::function<bool()>& done)> wait_until;
};

}  // namespace partita
