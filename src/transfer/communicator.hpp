// What Partita knows of one communicator.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/call_stream.hpp"
#include "core/world.hpp"
#include "transfer/key.hpp"
#include "transfer/ordinals.hpp"

namespace partita {

/// Where the legs of one collective stand. Collectives of a communicator meet by their number, and their legs in order
/// within: what ranks have made differently shifts nothing that comes later.
struct CollectivePlaces {
  std::uint32_t number = 0;  ///< so many came before on the communicator
  Ordinals ordinals;         ///< of the legs
};

/// What a layer above keeps with a communicator.
class CommunicatorPart {
 public:
  virtual ~CommunicatorPart() = default;
};

/// Lives as long as the communicator or the last half on it. Any thread.
struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
  std::uint64_t id = 0;                       ///< the same on all its ranks
  std::atomic<bool> alive{true};              ///< false once the program has freed it
  std::atomic<std::uint64_t> children{0};     ///< constructors called on it so far
  std::atomic<std::uint32_t> collectives{0};  ///< that have looked for their peers on it so far
  /// What two_sided/peer_collectives keeps here, in calls that the MPI lets one thread at a time make; null before the
  /// first of them.
  std::unique_ptr<CommunicatorPart> part;
  /// Whether two_sided/offers may offer messages on it: what the program has promised the MPI about them.
  enum class Takes : std::uint8_t { unknown, yes, no };
  std::atomic<Takes> offers{Takes::unknown};
  /// Which stream of the program's calls on it come behind, whose buffers lie in GPU memory (two_sided/stream_place).
  std::atomic<CallStream> stream{CallStream::of_job};

  /// The place of a new transfer among those of `space` with this peer, tag and direction.
  std::uint32_t draw_ordinal(Space space, bool send, int peer_world_rank, int tag);
  /// The transfer was not made; its place is the next one's, if it is the newest.
  void give_back_ordinal(Space space, bool send, int peer_world_rank, int tag, std::uint32_t ordinal);

  /// The world ranks of its group, by their ranks there; MPI_UNDEFINED where a process is not of the world. The first
  /// of these calls asks the MPI, locally, so the program must not have freed the communicator before. Throws Error.
  const std::vector<int>& members(const World& world);
  /// The world ranks of those to whom its ranks send: of an intercommunicator the remote group, else the members.
  const std::vector<int>& peers(const World& world);

 private:
  struct Groups {
    std::vector<int> members;
    std::optional<std::vector<int>> remote;  ///< of an intercommunicator
  };

  const Groups& groups(const World& world);

  std::mutex mutex_;
  std::array<Ordinals, space_count> ordinals_;
  std::optional<Groups> groups_;  ///< stays once it is there
};

}  // namespace partita
