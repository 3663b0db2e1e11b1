// What stands behind a Partita_Request: a point-to-point request, or whatever else has partitions.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/asked_together.hpp"
#include "core/error.hpp"
#include "core/loop_watch.hpp"
#include "core/watch.hpp"
#include "partitioned/facets.hpp"
#include "partitioned/queue_use.hpp"
#include "transfer/communicator.hpp"
#include "transfer/half.hpp"

namespace partita {

/// An answer of MPI_Request_get_info.
struct InfoEntry {
  const char* key;
  std::string value;
};

/// Sets all of `status`, which may be MPI_STATUS_IGNORE, but its error field.
void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes);

/// Life: made, seek_peers, then epochs (start … done … close), withdraw; it goes once no peer can touch its memory any
/// more. Some look for their peers only when the program has them matched (begin_match). It may have any number of
/// transfers. Unless said otherwise a member is called by one thread at a time. Members throw Error.
class Operation : public Waiting {
 public:
  /// What `facets` names lives as long as the operation, most often as a part of it. `communicator` may be null.
  Operation(Facets facets, std::shared_ptr<Communicator> communicator)
      : facets_(facets), communicator_(std::move(communicator)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const Facets& facets() const { return facets_; }
  /// Its error handler hears of the operation's errors.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  /// Counts tests, and other looks that do not wait, which have found it open or a partition not arrived.
  LoopWatch& loop_watch() { return loop_watch_; }

  /// Looks for the peers, unless that waits for begin_match(). Once, by the thread that made the operation.
  virtual void seek_peers() = 0;
  /// The program wants the match: looks for the peers, unless it does so already.
  virtual void begin_match() {}
  /// Whether all peers are known. Throws Error where one never will be. Any thread.
  virtual bool matched() const = 0;
  /// The program has seen that it is matched: what takes long, or memory of a GPU, and every epoch needs is done now.
  /// Any number of times.
  virtual void match_is_seen() {}
  /// Whether it may start again when it is complete; else whatever completes it frees it.
  virtual bool persistent() const { return true; }
  /// Whether the program may free it before it is complete: it goes on then, by lingering.
  virtual bool goes_on_when_freed() const { return false; }
  /// Whether the host opens its epochs; else kernels do, and start() throws.
  virtual bool is_host_driven() const { return true; }
  /// Why no queue takes it, from behind its name on; empty where some do.
  virtual std::string why_in_no_queue() const { return {}; }
  /// Opens the next epoch. Where that throws, none is open, and the next one is still to come.
  virtual void start() = 0;
  /// Whether an epoch is open. Any thread.
  virtual bool active() const = 0;
  /// Whether completion calls must look at it: an epoch is open, or there is an error of which nobody was told yet,
  /// where kernels open the epochs or have made a mistake.
  virtual bool open() const = 0;
  /// Whether the open epoch is complete. Makes progress.
  virtual bool done() = 0;
  /// A call that looks at several operations: those that wait for a request of the MPI's leave the asking to
  /// `together`.
  virtual void leave_asking_to(AskedTogether&) {}
  /// What asks for all that it waits for: where that has found nothing new, done() would not either. Null: done() asks.
  virtual const AskedTogether* asked_in() const { return nullptr; }
  /// Whether the peers have prepared for the open epoch, as Pbuf_prepare promises.
  virtual bool prepared() = 0;
  /// Closes the epoch; done() was true.
  virtual void close() = 0;
  /// The status of an operation whose epoch is complete.
  virtual void fill_status(MPI_Status* status) const = 0;

  /// Asks that it complete without having moved anything, if it can still be so (MPI-4, section 3.8.4).
  virtual void cancel();
  /// The epoch stays open, and can only end with `error`, which the peers hear of.
  virtual void fail(const Error& error) = 0;
  /// After an error in a wait or test: the epoch is given up, so that the operation can be freed, and the peers hear of
  /// `cause`, of epochs that kernels open in a later step of the progress engine; without a cause they hear of the
  /// free, which follows. Blocks while another thread takes a step of the engine, and until no copy of the epoch is
  /// under way, which may stand behind a stream of the program. It waits for a GPU where streams move an ordinary
  /// message, too, as long as that copies a few words; and, of epochs that kernels open, for up to 100 ms where the
  /// engine has no thread. Other threads may mark meanwhile.
  virtual void abandon(const std::optional<Error>& cause) = 0;
  /// The program frees the operation: no step of the progress engine finds it any more, and its kernels lose what they
  /// had of it.
  virtual void withdraw() = 0;
  /// Its halves of transfers, which the matcher keeps after a free, and the operation with them, until their peers are
  /// done as well.
  virtual std::vector<Half*> halves() = 0;
  /// Whether other ranks still wait for what it does by itself, in steps of the progress engine and with halves that
  /// are none of the program's buffers: then it goes on with them after withdraw(), until this is false. Takes the
  /// engine's lock.
  virtual bool lingers() { return false; }
  /// The halves with which it lingers. They are freed when it does not linger any more, after stop_lingering().
  virtual std::vector<Half*> lingering_halves() { return {}; }
  /// Nobody waits for it any more, or nobody can. Called once, after withdraw().
  virtual void stop_lingering() {}

  /// Whether buffers of it lie in GPU memory.
  virtual bool in_gpu_memory() const = 0;
  /// One word for what it is: the value of info key partita_kind.
  virtual const char* kind() const = 0;
  /// Whether it is one that has partitions, whatever may be done with them.
  virtual bool has_partitions() const { return true; }
  virtual std::vector<InfoEntry> info() const = 0;

  /// The operation itself looks at none of it.
  QueueUse& queue_use() { return queue_use_; }
  const QueueUse& queue_use() const { return queue_use_; }

 private:
  const Facets facets_;
  const std::shared_ptr<Communicator> communicator_;
  LoopWatch loop_watch_;
  QueueUse queue_use_;
};

}  // namespace partita
