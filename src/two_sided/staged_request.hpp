// Requests of the MPI's whose data lies in GPU memory, and which move it out of host memory and into it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/asked_together.hpp"
#include "partitioned/operation.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/stream_place.hpp"

namespace partita {

/// One request of the MPI's, which it completes and whose errors it finds. An epoch's way: what the MPI reads is
/// fetched → the MPI moves it → whoever looks begins the copy to the GPU, once, behind the program's stream → that has
/// ended. A nonblocking one opens its only epoch as it is made. It is no step of the progress engine: whoever completes
/// it asks the MPI. Where the program may free it before it is complete it goes on then: the engine asks. The program's
/// error handler hears of the MPI's errors from whoever asks the MPI. A call that looks at several of them asks the MPI
/// for all at once.
class StagedRequest : public Operation, private AskedTogether::Member {
 public:
  ~StagedRequest() override { leave_together(); }

  /// Calls the MPI.
  void seek_peers() override;
  bool matched() const final { return true; }
  bool persistent() const final { return is_persistent_; }
  void start() override;
  bool active() const final { return phase() != Phase::inactive; }
  bool open() const final { return active(); }
  bool done() override;
  void leave_asking_to(AskedTogether& together) override;
  const AskedTogether* asked_in() const final { return together_.load(std::memory_order_relaxed); }
  bool prepared() final;
  void close() override { enter(Phase::inactive); }
  void fill_status(MPI_Status* status) const final;
  void fail(const Error& error) override;
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override { leave_together(); }
  std::vector<Half*> halves() final { return {}; }
  bool lingers() final;
  void stop_lingering() final;
  bool in_gpu_memory() const final { return false; }  // it holds nothing of a peer's
  bool has_partitions() const final { return false; }
  std::vector<InfoEntry> info() const final;
  int waits_for() const override { return -1; }

 protected:
  /// `communicator`: whose error handler hears of errors that are not the MPI's.
  StagedRequest(bool is_persistent, std::shared_ptr<Communicator> communicator)
      : Operation({}, std::move(communicator)), is_persistent_(is_persistent) {}

  /// Whether the MPI may still read or write what it was given.
  bool is_in_mpi() const { return phase() == Phase::in_mpi; }
  /// In fetch(): what is received goes to a buffer in the memory of GPU `device`, where the communicator's stream may
  /// have work on it. Throws Error.
  void deliver_behind_stream(GpuLanes& lanes, int device);
  /// In fetch(): a buffer there is read, at once. Blocks until the stream has come to this call. Throws Error.
  void await_stream(GpuLanes& lanes, int device);
  /// The MPI is asked to take its request back, while it has it; by the thread whose call asks for several, if one
  /// does. Any thread.
  void cancel_in_mpi();
  void answered(MPI_Request request, int code, const MPI_Status& status) noexcept override;
  void let_go() noexcept override;
  void cancel_if_wanted() noexcept override;
  /// Whether the MPI has it no more, and it is copied to the GPU, or about to be.
  bool is_delivered() const { return phase() == Phase::delivery || phase() == Phase::arrived; }
  /// Whether that waits for the program's stream.
  bool waits_for_stream() const { return phase() == Phase::arrived; }
  static constexpr const char* behind_stream =
      " has arrived and waits for the stream of the program's that its call comes behind";
  /// Whether a look has found a failure, of which whoever completes the request hears.
  bool has_failed() const { return failure_.has_value(); }
  /// What the MPI tells of what it has completed.
  MPI_Status& status() { return status_; }
  /// The MPI's request: null before the call, and where it is complete and not persistent.
  MPI_Request& request() { return request_; }
  /// In start_mpi(), of a persistent one: this start has a request of its own, which `make(request)` makes, or none.
  /// The persistent one stays inactive meanwhile. Returns the code of `make`.
  template <class Make>
  int start_apart(MPI_Request* request, const Make& make) {
    persistent_ = std::exchange(*request, MPI_REQUEST_NULL);
    const int code = make(request);
    if (code != MPI_SUCCESS) end_apart();
    return code;
  }
  /// The communicator's error handler has heard of a failure of `call`.
  static void check_raised(int code, const char* call);

 private:
  enum class Phase : std::uint8_t {
    inactive,
    in_mpi,
    arrived,  ///< here, but the program's stream has not come to the call
    delivery,
  };

  /// Where its buffer lies, of a message's (a value of the info key partita_memory); null: not told.
  virtual const char* memory_name() const { return nullptr; }
  /// How the bytes move, and why not by a quicker way; empty: not told. Any thread.
  virtual std::string reason() const { return {}; }
  /// Takes from the GPU what the MPI reads. Blocks. Throws Error.
  virtual void fetch() = 0;
  /// Makes the call `call_name()`, which makes a request. Returns the MPI's code.
  virtual int call_mpi(MPI_Request* request) = 0;
  virtual const char* call_name() const = 0;
  /// Starts what is persistent. Returns the MPI's code.
  virtual int start_mpi(MPI_Request* request);
  /// Whether what was called or started last is complete without the MPI; fills its status.
  virtual bool is_there(MPI_Status&) { return false; }
  /// Begins to put what was received to its places on the GPU. Does not block. Throws Error.
  virtual void begin_delivery(const MPI_Status& status) = 0;
  /// What the MPI has received of a request that was given up is nobody's.
  virtual void refuse(const MPI_Status&) noexcept {}
  /// Whether what was begun has ended. Throws Error.
  virtual bool settled() = 0;
  /// The MPI has failed with `code`, in the program's call. For those whose error handler has not heard of it.
  virtual void hear(int /*code*/) {}
  /// The MPI may go on with the host memory that it was given.
  virtual void leave_to_the_mpi() noexcept = 0;
  /// Whether the MPI may be asked to take it back.
  virtual bool may_be_cancelled() const = 0;

  /// Who reads it while another thread writes it learns no more by it: what else they share has a lock.
  Phase phase() const { return phase_.load(std::memory_order_relaxed); }
  void enter(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void check(int code, const char* call);
  void enter_mpi();
  bool proceed();
  void end_in_mpi(int code);
  bool is_to_ask();
  void leave_together();
  void leave_together_locked();
  bool delivers();
  void give_up_epoch();
  void end_apart();

  const bool is_persistent_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Request persistent_ = MPI_REQUEST_NULL;  ///< while a start has a request of its own
  MPI_Status status_{};
  std::atomic<Phase> phase_ = Phase::inactive;
  /// Guards what follows: another thread may cancel while one asks for several. Not held while the MPI is called.
  mutable std::mutex together_mutex_;
  std::atomic<AskedTogether*> together_ = nullptr;  ///< whose thread alone gives request_ to the MPI
  bool is_to_be_cancelled_ = false;                 ///< by that

  std::unique_ptr<StreamPlace> place_;  ///< behind which the delivery comes; null: behind none
  std::optional<Error> failure_;
};

}  // namespace partita
