// What stands behind a Partita_Request: a point-to-point request, or whatever else has partitions.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/loop_watch.hpp"
#include "core/watch.hpp"
#include "partitioned/facets.hpp"
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

class Operation;

/// Where marks of the host are kept that come before a queue has run the start of their epoch.
class EarlyMarks {
 public:
  /// Keeps the marks of [first, last] for the start of `operation` that was enqueued last. False where that has run
  /// meanwhile: then they are the operation's. Any thread.
  virtual bool keep(Operation& operation, std::int64_t first, std::int64_t last) = 0;

 protected:
  ~EarlyMarks() = default;
};

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

  /// Whether a queue has a start of it whose wait is not over: then the host neither starts nor completes nor frees it.
  /// Any thread: who finds it over has seen all that the queue has done with it.
  bool enqueued() const { return enqueued_.load(std::memory_order_acquire) > 0; }
  void count_enqueued(int change) { enqueued_.fetch_add(change, std::memory_order_acq_rel); }
  /// The newest start of it that was enqueued, as the queue keeps it.
  struct NewestStart {
    const void* queue = nullptr;
    bool has_wait = false;   ///< which is enqueued, too
    std::size_t place = 0;   ///< while it has none: in the queue's list of such
    std::uint64_t call = 0;  ///< the number of the call that looked at it last
    /// Who runs it: the progress engine or the host; or the stream itself, whether the start could be asked for or not.
    enum class By { others, stream, graph } by = By::others;
    bool is_asked_for = false;
  };
  NewestStart& newest_start() { return newest_start_; }
  const NewestStart& newest_start() const { return newest_start_; }
  /// Returns null unless starts of it are enqueued that have not run. Any thread: who finds null has seen the last of
  /// them.
  EarlyMarks* early_marks() const { return early_marks_.load(std::memory_order_acquire); }
  /// These two count such starts, under the lock of the queue that keeps the marks.
  void add_start_ahead(EarlyMarks& marks) {
    ++starts_ahead_;
    early_marks_.store(&marks, std::memory_order_release);
  }
  void start_has_run() {
    if (--starts_ahead_ == 0) early_marks_.store(nullptr, std::memory_order_release);
  }
  /// So many matching requests wait for it: it is not freed meanwhile. Any thread: each of them may be completed by
  /// another one. Whoever frees it after the last has seen all that those threads have done with it.
  int awaited() const { return awaited_.load(std::memory_order_acquire); }
  void count_awaited(int change) { awaited_.fetch_add(change, std::memory_order_acq_rel); }

 private:
  const Facets facets_;
  const std::shared_ptr<Communicator> communicator_;
  LoopWatch loop_watch_;
  std::atomic<EarlyMarks*> early_marks_{nullptr};
  std::atomic<int> enqueued_{0};  ///< starts whose waits are not over
  NewestStart newest_start_;
  int starts_ahead_ = 0;
  std::atomic<int> awaited_{0};
};

}  // namespace partita
