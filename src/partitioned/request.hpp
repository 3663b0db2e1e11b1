// What partitioned sends and receives have in common.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "core/loop_watch.hpp"
#include "partitioned/device_side.hpp"
#include "partitioned/facets.hpp"
#include "partitioned/gpu_request.hpp"
#include "partitioned/request_services.hpp"
#include "transfer/communicators.hpp"
#include "transfer/half.hpp"

namespace partita {

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
class Request : public Half::User, public GpuRequest {
 public:
  /// `half` and what `facets` names are the derived class's, and made after this.
  Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets);
  ~Request() override = default;
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

  bool active() const { return half_.active(); }
  /// Whether completion calls must look at it: an epoch is open, or a device-driven request, or a kernel of it, has
  /// failed and nobody was told yet.
  bool open() const {
    if (active()) return true;
    if (device_ == nullptr) return false;
    if (failed()) return device_driven() && !half_.failure_is_told();
    return device_->has_news();
  }
  bool matched() const { return half_.matched(); }
  /// What a wait for the match ends with; throws Error if it failed.
  bool matched_or_failed() const {
    half_.throw_if_failed();
    return matched() || null_peer();
  }
  const DeviceSide* device_side() const { return device_.get(); }
  /// Whether `view` is of this request's device side. Any thread.
  bool has_device_side(const Partita_Prequest& view) const {
    return view.life != 0 && device_life_.load(std::memory_order_relaxed) == view.life;
  }
  Side side() const { return arguments_.side; }
  const RequestArguments& arguments() const { return arguments_; }
  const Facets& facets() const { return facets_; }
  Half& half() { return half_; }
  const Half& half() const { return half_; }
  bool in_gpu_memory() const { return !memory::is_host(place_.kind); }
  int device() const { return place_.device; }
  bool device_driven() const final { return arguments_.driver == link::Driver::device; }
  const link::Plan& plan() const { return half_.plan(); }  ///< once matched
  const std::string& link_name() const { return half_.link_name(); }
  const std::string& link_reason() const { return half_.link_reason(); }

  bool failed() const final { return half_.failed(); }
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
  /// Looks for the peer. Once, by the thread that made the request.
  virtual void seek_peer() = 0;
  /// The program frees the request: no step of the progress engine finds it any more, and its kernels lose what they
  /// had of it.
  virtual void withdraw();
  void watch_kernels(KernelFindings& findings) final;
  void fail_kernels(const Error& error) final { fail_kernels(error, Mail::Caller::may_call_the_mpi); }

  std::string explain() const override;
  int waits_for() const override { return arguments_.peer; }
  std::uint64_t how_far() const override;
  /// A test, Parrived or any other look that does not wait has found the request open, or a partition not arrived. Says
  /// why the loop that it belongs to ends, if it does. Any thread.
  std::optional<Error> look_in_vain();

 protected:
  /// An epoch opens. Throws Error if none may. A mistake of a kernel that nobody was told gives the request up.
  void check_startable();
  /// Throws Error if no other epoch may open.
  void throw_if_given_up() const;
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
  Epoch epoch() const { return half_.epoch(); }
  void record(Trace::Event event, std::int64_t partition = -1) const { half_.record(event, partition); }
  std::byte* user_data() const { return arguments_.buffer + layout_.first_byte(); }
  std::int64_t total_bytes() const;
  HalfTerms terms() const;
  /// Elements before user partition `partition`.
  std::int64_t first_element(std::int64_t partition) const { return partition * arguments_.count; }

  const RequestServices& services_;
  RequestArguments arguments_;
  Layout layout_;
  memory::Place place_;
  Half& half_;
  const Facets facets_;

  bool wants_progress_ = false;              ///< an open epoch needs host steps all along
  bool kernels_want_progress_ = false;       ///< and would need none but for the device request
  std::unique_ptr<DeviceSide> device_;       ///< while the program has a device request; kernels mark then
  std::atomic<partita_u32> device_life_{0};  ///< of its device request, which is found by that

 private:
  void fail_kernels(const Error& error, Mail::Caller caller);
  std::optional<Epoch> end_epoch();

  LoopWatch loop_watch_;
  bool progress_is_wanted_ = false;  ///< by the open epoch
  int looks_in_vain_ = 0;            ///< by the watch
};

}  // namespace partita
