// What kernels are given of a request, Partita_Prequest: filled here.
#pragma once

#include <optional>
#include <vector>

#include "link/device_route.hpp"
#include "link/plan.hpp"
#include "memory/device.hpp"
#include "partita/device/impl/areas.hpp"
#include "partita/device/peer.h"
#include "partita/device/prequest.h"

namespace partita {

/// What kernels need of a collective that they do: fields of Partita_Prequest. Addresses are as its GPU uses them.
struct CollectiveTerms {
  std::vector<Partita_Peer> peers;  ///< as Partita_Prequest.peers
  std::byte* areas = nullptr;
  const std::byte* sent = nullptr;
  std::byte* received = nullptr;
  std::int64_t block_bytes = 0;
  partita_u32 collective = 0;
  partita_u32 reduction = 0;
  partita_u32 algorithm = PARTITA_ALGORITHM_PACKETS;
  partita_u32 unit_bytes = 0;  ///< in the peers' buffers
  int rank = 0;
  int ranks = 0;
  int root = 0;
  device::Cut cut;
  Epoch newest_flag = no_epoch;  ///< that its packets and flags have carried so far
};

/// What a device request is made for.
struct PrequestTerms {
  partita_u32 sides = 0;      ///< PARTITA_PREQUEST_SEND, PARTITA_PREQUEST_RECV, or both
  link::Driver driver{};      ///< who opens the epochs
  std::byte* data = nullptr;  ///< the program's buffer, if the partitions lie in one as the plan says
  memory::Place place;        ///< where the program's data lie
  bool in_place = false;      ///< kernels of a send store into the peer's memory themselves
  const link::Plan& plan;
  link::DeviceRoute route;  ///< of the one side, if there is one
  double timeout_s = 0;     ///< of waits in kernels; 0: none
  /// Where kernels do it: then there are no sides, and `plan` counts only where marks push.
  std::optional<CollectiveTerms> collective = {};

  /// Whether marks of a collective push.
  bool pushes() const { return collective && collective->algorithm == PARTITA_ALGORITHM_PUSH; }
  /// Whether the host must tell the kernels what has arrived.
  bool host_raises_flags() const;
};

/// The words that are made for it, as its GPU addresses them.
struct PrequestWords {
  Partita_Prequest_state* state = nullptr;
  Partita_Prequest_host* host = nullptr;
  const partita_u64* epochs = nullptr;  ///< in host memory: the epoch that the host has opened, in both halves
  const Partita_Peer* peers = nullptr;  ///< of the route, if there is one: a table
  partita_u32* flags = nullptr;         ///< one a transport partition, where host_raises_flags()
  partita_u32 life = 0;                 ///< Partita_Prequest.life
};

/// PARTITA_PREQUEST_*, by which the words differ that a request has.
partita_u32 prequest_flags(const PrequestTerms& terms);

/// Throws Error where the partitions of a side differ in size.
Partita_Prequest make_prequest(const PrequestTerms& terms, const PrequestWords& words);
/// Makes the device request of a request to or from MPI_PROC_NULL, with which kernels do nothing.
Partita_Prequest make_prequest_to_nobody(partita_u32 side, link::Driver driver, partita_u32 life);

/// Partita_Prequest.life of the next device request. Any thread.
partita_u32 new_prequest_life();
/// The peers of a collective that kernels do, or the one that the route names, if there is a route.
std::vector<Partita_Peer> peers_of(const PrequestTerms& terms);

}  // namespace partita
