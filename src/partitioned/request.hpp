// What partitioned sends and receives have in common.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"
#include "core/loop_watch.hpp"
#include "core/mailbox.hpp"
#include "core/trace.hpp"
#include "core/watch.hpp"
#include "link/link.hpp"
#include "partitioned/device_side.hpp"
#include "partitioned/gpu_request.hpp"
#include "partitioned/request_services.hpp"
#include "transfer/communicators.hpp"
#include "transfer/ending.hpp"
#include "transfer/setup_messages.hpp"

namespace partita {

enum class Side : std::uint8_t { send, recv };

/// The checked arguments of Psend_init and Precv_init.
struct RequestArguments {
  Side side{};
  std::byte* buffer = nullptr;
  int partitions = 1;
  std::int64_t count = 0;                     ///< elements in a partition
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  ///< flattened at once; the program may free it
  int rank = MPI_PROC_NULL;                   ///< of the peer, in the communicator
  int tag = 0;
  int peer = -1;  ///< the peer's world rank; -1 for MPI_PROC_NULL
  std::shared_ptr<Communicator> communicator;
  std::string link = "auto";                 ///< wished by the info key
  int transport_partitions = 0;              ///< wished by the info key; 0: no wish
  link::Driver driver = link::Driver::host;  ///< who opens the epochs
  GpuCopy gpu_copy = GpuCopy::automatic;     ///< who moves what kernels mark
  bool in_place = false;                     ///< kernels store into the peer's memory themselves (MPIX_Pbuffer)
};

/// Sets all of `status`, which may be MPI_STATUS_IGNORE, but its error field.
void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes);

/// Life: made, matched (once, by the Matcher, on any thread), then epochs: start … done … complete. Unless said
/// otherwise a member is called by one thread at a time. Members throw Error.
class Request : public Waiting, public GpuRequest {
 public:
  Request(const RequestServices& services, RequestArguments arguments);
  ~Request() override;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// Opens the next epoch. Where that throws, none is open, and the next one is still to come.
  virtual void start() = 0;
  /// Whether the open epoch is complete; makes progress.
  virtual bool done() = 0;
  /// Whether the peer has prepared for the open epoch, as Pbuf_prepare promises.
  virtual bool prepared() = 0;
  /// Closes the epoch; done() was true.
  void complete();
  /// One look: an open epoch that is complete is closed. Returns whether none is open any more.
  bool close_if_done();
  /// The status of a request whose epoch is complete.
  void fill_status(MPI_Status* status) const;

  bool active() const { return active_.load(std::memory_order_acquire); }
  /// Whether completion calls must look at it: an epoch is open, or a device-driven request, or a kernel of it, has
  /// failed and nobody was told yet.
  bool open() const {
    if (active()) return true;
    if (device_ == nullptr) return false;
    if (failed()) return device_driven() && !told_.load(std::memory_order_relaxed);
    return device_->has_news();
  }
  bool matched() const { return matched_.load(std::memory_order_acquire); }
  /// What a wait for the match ends with; throws Error if it failed.
  bool matched_or_failed() const {
    throw_if_failed();
    return matched() || null_peer();
  }
  const DeviceSide* device_side() const { return device_.get(); }
  /// Whether `view` is of this request's device side. Any thread.
  bool has_device_side(const Partita_Prequest& view) const {
    return view.life != 0 && device_life_.load(std::memory_order_relaxed) == view.life;
  }
  Side side() const { return arguments_.side; }
  const RequestArguments& arguments() const { return arguments_; }
  SideShape shape() const;
  /// The forms in which links may take this side's memory, the best first: as it is, and, of a GPU, staged in host
  /// memory.
  std::vector<link::Endpoint> endpoints() const;
  /// One of them, with memory behind it.
  link::Endpoint allocated(link::Endpoint endpoint);
  bool in_gpu_memory() const { return !memory::is_host(place_.kind); }
  int device() const { return place_.device; }
  bool device_driven() const final { return arguments_.driver == link::Driver::device; }
  const link::Plan& plan() const { return plan_; }  ///< once matched
  const std::string& link_name() const { return link_name_; }
  const std::string& link_reason() const { return link_reason_; }

  bool failed() const final { return failed_.load(std::memory_order_acquire); }
  /// The request can never complete: every later start, done and prepared throws `error`. Any thread.
  void fail(const Error& error);
  /// The same, and the other side hears of it: this side `what`, "could not send" for instance, and why.
  void fail_on_both_sides(const char* what, const Error& error,
                          Mailbox::Caller caller = Mailbox::Caller::may_call_the_mpi);
  /// After an error in a wait or test: the epoch is given up, so that the request can be freed, and the other side
  /// hears of `cause`. Blocks while another thread takes a step of the progress engine. Other threads may mark
  /// meanwhile.
  void abandon(const Error& cause);
  /// The same for a request that is freed next, which the other side hears of then.
  void abandon();

  /// Makes what kernels need (MPIX_Prequest_create); the request is matched.
  const Partita_Prequest& make_device_side();
  /// No kernel uses it any more (MPIX_Prequest_free). Gives what a kernel did wrong and nobody was told.
  std::optional<Error> free_device_side();
  /// What a kernel did wrong and nobody was told, who is told now.
  std::optional<Error> untold_mistake() const;
  /// The program has freed the request: its buffer may go before the request does.
  virtual void release_memory() = 0;
  /// Looks for the peer. Once, by the thread that made the request.
  virtual void seek_peer() = 0;
  /// The program frees the request: no step of the progress engine finds it any more, and its kernels lose what they
  /// had of it.
  virtual void withdraw();
  void watch_kernels(KernelFindings& findings) final;
  void fail_kernels(const Error& error) final { fail_kernels(error, Mailbox::Caller::may_call_the_mpi); }

  std::string explain() const override;
  int waits_for() const override { return arguments_.peer; }
  std::uint64_t how_far() const override;
  /// A test, Parrived or any other look that does not wait has found the request open, or a partition not arrived. Says
  /// why the loop that it belongs to ends, if it does. Any thread.
  std::optional<Error> look_in_vain();

  /// Known to the Matcher alone.
  struct Matching {
    std::uint64_t id = 0;                   ///< names this request in messages to this rank
    std::atomic<std::uint64_t> peer_id{0};  ///< names the peer's request; 0 while unknown
    MatchKey key;
    std::atomic<bool> peer_freed{false};
    Ending ending;
  } matching;
  /// The first epoch that is lost to the other side when this one is freed.
  Epoch first_epoch_after_free() const { return next(epoch_); }

 protected:
  /// An epoch opens. Throws Error if none may. A mistake of a kernel that nobody was told gives the request up.
  void check_startable();
  void throw_if_failed() const;
  /// fail_on_both_sides() with what is being handled; gives it back, to be thrown.
  Error fail_with_current(const char* what);
  /// Whether the other side has ended so that the open epoch cannot complete, unless it has by now: asked before the
  /// look at that.
  bool is_lost() const { return matching.ending.loses(epoch_); }
  /// Why, and how far this side has come.
  Error why_lost() const { return why_lost(explain()); }
  Error why_lost(const std::string& state) const;
  /// Throws Error if no other epoch may open.
  void throw_if_given_up() const;
  /// Traces an event of the open epoch.
  void record(Trace::Event event, std::int64_t partition = -1) const;
  /// " (1, 2, 5, …)": the first few of `numbers`, for explain().
  static std::string listed(const std::vector<std::int64_t>& numbers);
  /// What is the side's own in the device request; throws Error where kernels cannot use it.
  virtual Partita_Prequest device_view() = 0;
  /// Whether a kernel that waits now would wait for something of the peer's that has not come. The watch's thread.
  virtual bool kernels_can_wait() const = 0;
  /// After the epoch was opened, or the device side made within one.
  void enter_device_epoch();
  /// Its steps are to be taken, and its kernels watched.
  void enter_engine();
  /// Nobody watches the request any more.
  void release_device_side();
  void drop_device_side();
  /// Of the open epoch of a matched request: whether everything has left, or arrived. May throw.
  virtual bool epoch_is_over() = 0;
  /// The open epoch ends with an error: nothing more of it may leave. given_up_ is set, and no step of the progress
  /// engine runs meanwhile.
  virtual void give_up_epoch() {}
  /// How far the open epoch has come, for explain().
  virtual std::string describe_epoch() const = 0;
  /// The same as a number, of a matched request.
  virtual std::uint64_t partitions_so_far() const = 0;
  /// The open epoch needs host steps until it is closed.
  void want_progress();
  /// The calling thread may take steps that copy GPU memory.
  void enter_gpu() const;
  /// The direction, the peer and the shape: how explain() begins.
  std::string name() const;
  bool null_peer() const { return arguments_.peer < 0; }
  std::byte* user_data() const { return arguments_.buffer + layout_.first_byte(); }
  /// Elements before user partition `partition`.
  std::int64_t first_element(std::int64_t partition) const { return partition * arguments_.count; }

  const RequestServices& services_;
  RequestArguments arguments_;
  Layout layout_;
  memory::Place place_;
  std::byte* staging_ = nullptr;    ///< packed bytes of a buffer with gaps, else null
  std::byte* host_copy_ = nullptr;  ///< of a buffer in GPU memory, where the link does not move that; else null

  std::mutex setup_mutex_;  ///< taken until matched, and to give an epoch up
  std::atomic<bool> matched_{false};
  std::atomic<bool> active_{false};
  /// An epoch ended with an error: no other opens, and nothing more of it leaves. Threads that mark look at it.
  std::atomic<bool> given_up_{false};
  Epoch epoch_;
  link::Plan plan_;
  std::string link_name_;
  std::string link_reason_;
  bool wants_progress_ = false;              ///< an open epoch needs host steps all along
  bool kernels_want_progress_ = false;       ///< and would need none but for the device request
  std::unique_ptr<DeviceSide> device_;       ///< while the program has a device request; kernels mark then
  std::atomic<partita_u32> device_life_{0};  ///< of its device request, which is found by that

 private:
  void fail_kernels(const Error& error, Mailbox::Caller caller);
  void say(Epoch first_lost, const char* what, const Error& error, Mailbox::Caller caller);
  std::optional<Epoch> end_epoch();

  mutable std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> told_{false};  ///< the failure was thrown to a caller
  std::optional<Error> failure_;
  LoopWatch loop_watch_;
  bool progress_is_wanted_ = false;  ///< by the open epoch
  int looks_in_vain_ = 0;            ///< by the watch
};

}  // namespace partita
