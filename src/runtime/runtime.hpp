// Everything between Partita_Init and Partita_Finalize.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "collective/tuning.hpp"
#include "core/backoff.hpp"
#include "core/mailbox.hpp"
#include "core/progress.hpp"
#include "core/settings.hpp"
#include "core/trace.hpp"
#include "core/world.hpp"
#include "link/registry.hpp"
#include "memory/device.hpp"
#include "memory/host.hpp"
#include "partitioned/gpu/device_watch.hpp"
#include "partitioned/gpu/ready_notes.hpp"
#include "partitioned/request_services.hpp"
#include "queue/kinds.hpp"
#include "runtime/gpu_awareness.hpp"
#include "runtime/operations.hpp"
#include "transfer/communicators.hpp"
#include "transfer/holds.hpp"
#include "transfer/link_report.hpp"
#include "transfer/matcher.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/matched_messages.hpp"
#include "two_sided/offers.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_collectives.hpp"

namespace partita {

/// What this rank's environment says, before the ranks have agreed on anything.
struct LocalSettings {
  LocalSettings();
  Settings settings;
  std::optional<Error> failure;  ///< a value is malformed
};

/// Members in the order in which they build on one another. Collective to make (see Partita_Init).
class Runtime {
 public:
  /// Throws SharedError, on all ranks of `comm`, where one has bad settings or cannot make what it needs.
  explicit Runtime(MPI_Comm comm) : Runtime(comm, LocalSettings()) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Collective: ends all traffic. Throws Error when that takes longer than the time limit.
  void finalize();

  World world;
  const Settings settings;
  const collective::Tuning tuning;  ///< in place of the built-in one where it has a rule
  Trace trace;
  Progress progress;
  Mailbox mailbox;
  memory::HostMemory host_memory;
  std::unique_ptr<memory::DeviceMemory> device_memory;
  const GpuAwareness gpu_awareness;
  std::vector<std::unique_ptr<link::Link>> links;
  LeftBoards left_boards{host_memory};
  Constructors constructors;
  OwnComms own_comms{world, gpu_awareness.peer_sizes.has_value()};
  Communicators communicators;
  LinkReport link_report;
  Holds holds;
  GpuLanes gpu_lanes{host_memory, *device_memory, progress, world.spare_cores(), settings.call_stream};
  DeviceWatch device_watch{world, *device_memory, progress};
  ReadyNotes ready_notes{host_memory, *device_memory};
  const RequestServices services;  ///< what is above, and the next one, as requests take it
  OfferCounts offer_counts{services, gpu_awareness.offers_from_bytes.has_value()};
  Offers offers;  ///< operations refer to it
  MatchedMessages matched_messages;
  Matcher matcher;
  Operations operations;
  const QueueServices queue_services;
  Queues queues;
  const memory::Meanwhile meanwhile{*device_memory, [this](int device) { queues.look_at_streams(device); }};
  PeerCollectives peer_collectives;

  /// Blocks until `done` returns true, making progress; `waiting` explains a hang. Throws Error.
  template <class Done>
  void wait_until(const Waiting& waiting, const Done& done) {
    Backoff backoff(world.spare_cores());
    Watch watch(settings, world);
    for (unsigned polls = 1; !done(); ++polls) {
      // Now and then even if no request of ours wants it: the MPI beneath may have rendezvous to finish.
      const bool wants_steps = progress.wanted();
      if (wants_steps || polls % 64 == 0) progress.poll();
      try {
        watch.look(waiting, backoff.pause(wants_steps ? Backoff::pauses_of_steps : 1));
      } catch (const WaitError&) {
        // The thread may have been without a core for as long: what it waited for counts if it has come.
        progress.poll();
        if (!done()) throw;
        return;
      }
    }
  }

  /// Blocks until the open epoch of `operation` is over, and closes it. An error gives the epoch up. Throws Error.
  void complete(Operation& operation);

  /// Frees an operation. In GPU memory, it lets go of peers' memory that operations no longer use, too.
  void free(Operation& operation);

  /// Memory of Partita_Alloc. Where this process may make no more segments it is the MPI's, which peers cannot map.
  /// Throws Error.
  void* allocate_memory(std::size_t size_bytes);
  bool is_allocated(const void* base) const;
  /// Frees memory of Partita_Alloc, and its mappings at the peers.
  void free_memory(void* base);

 private:
  Runtime(MPI_Comm comm, const LocalSettings& local);
  void start_thread();
  void let_go_of_peers_memory();
  memory::Closing closing();

 private:
  mutable std::mutex of_mpi_mutex_;
  std::set<const void*> of_mpi_;  ///< what allocate_memory() had to take from the MPI
};

}  // namespace partita
