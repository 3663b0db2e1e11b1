// A nonblocking collective of the MPI's on GPU memory that may go by peer memory.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioned/operation.hpp"
#include "two_sided/host_mirrors.hpp"
#include "two_sided/peer_call.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_queue.hpp"
#include "two_sided/peer_reasons.hpp"
#include "two_sided/queued_call.hpp"
#include "two_sided/side_work.hpp"
#include "two_sided/staged_call.hpp"

namespace partita {

/// On one rank. It waits in the queue of its communicator until the ranks have made it, or it is the MPI's; then
/// whoever completes it asks the MPI. The communicator's error handler hears from that call what was found before.
class PeerRequest final : public Operation, private PeerQueueEntry {
 public:
  /// What requests of one communicator have in common.
  struct Site {
    const PeerServices& services;
    PeerMappings& mappings;
    PeerReasons& reasons;
    SideWork& side_work;
    int rank;
  };
  PeerRequest(const Site& site, std::shared_ptr<Communicator> communicator);
  ~PeerRequest() override;

  /// Looks at the buffers of the program's call; at most once, before it is queued. Returns whether this rank wants it
  /// by peers; else the MPI makes it, on all ranks.
  bool describe(PeerParts parts);
  bool describe(PeerShares shares);
  /// The call of this rank: in `queue`, or else the MPI's. `mirrors`, of one that this rank does not want by peers,
  /// have what the MPI reads.
  void queue(PeerQueue& queue, const char* name, std::unique_ptr<QueuedCall> call, HostMirrors mirrors);

  void seek_peers() override;
  bool matched() const override { return true; }
  bool persistent() const override { return false; }
  void start() override;
  bool active() const override { return phase() != Phase::inactive; }
  bool open() const override { return active(); }
  bool done() override;
  bool prepared() override;
  void close() override { enter(Phase::inactive); }
  void fill_status(MPI_Status* status) const override;
  void fail(const Error& error) override { imposed_ = error; }
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override {}
  std::vector<Half*> halves() override { return {}; }
  bool in_gpu_memory() const override { return false; }  // it holds nothing of a peer's
  const char* kind() const override { return "collective"; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override;

 private:
  enum class Phase : std::uint8_t { inactive, queued, made, in_mpi, failed };
  /// How far it has come in the queue.
  enum class Stage : std::uint8_t {
    waits,    ///< for those before it
    agrees,   ///< with the others, and their GPUs work
    stages,   ///< the MPI makes it, once the program's stream is there
    fetches,  ///< what the MPI reads
    called,
  };

  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  void enter(Phase phase) { phase_.store(phase, std::memory_order_release); }
  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  void enter(Stage stage) { stage_.store(stage, std::memory_order_release); }
  bool step(PeerBoard& board, MPI_Comm comm) override;
  void fail_in_queue(Error error) noexcept override;
  void leave_queue() noexcept override { enter(outcome_); }
  const char* name() const override { return name_; }
  std::string explain_first() const override;
  int first_waits_for() const override;
  /// What was described, with all that it refers to: its mapping may go on when the request is given up.
  struct Described {
    std::shared_ptr<Communicator> communicator;
    PeerContext context;
    std::vector<PeerPart> parts[2];
    std::unique_ptr<PeerCall> call;
  };
  std::shared_ptr<Described> begin_description();
  bool is_wanted(std::shared_ptr<Described> described);
  void begin(PeerBoard& board);
  bool stages(MPI_Comm comm);
  bool calls_mpi(MPI_Comm comm);
  void raise_refusal();

  const Site site_;
  std::shared_ptr<Described> by_peers_;  ///< null where this rank does not want it
  const char* name_ = "";
  std::unique_ptr<QueuedCall> call_;
  PeerQueue* queue_ = nullptr;
  HostMirrors mirrors_;
  std::unique_ptr<StagedCall> staged_;
  std::atomic<Phase> phase_{Phase::inactive};
  std::atomic<Stage> stage_{Stage::waits};
  Phase outcome_ = Phase::made;   ///< what it enters where it leaves the queue
  std::optional<Error> failure_;  ///< found in the queue
  int refusal_ = MPI_SUCCESS;     ///< the MPI's code, of which no error handler has heard yet
  std::optional<Error> imposed_;  ///< by a loop of tests
};

}  // namespace partita
