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
#include "partitioned/device_side.hpp"
#include "partitioned/gpu_request.hpp"
#include "partitioned/operation.hpp"
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

/// Has one half, which is matched once, by the Matcher, on any thread.
class Request : public Operation, public Half::User, public KernelUsable, public GpuRequest {
 public:
  /// `half` and what `facets` names are the derived class's, and made after this.
  Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets);

  void close() final;
  void fill_status(MPI_Status* status) const final;
  bool active() const final { return half_.active(); }
  bool open() const final;
  void fail(const Error& error) final { half_.fail_on_both_sides("gave its request up", error); }
  void abandon(const std::optional<Error>& cause) final;
  void withdraw() override;
  std::vector<Half*> halves() final { return {&half_}; }
  bool in_gpu_memory() const final { return !memory::is_host(place_.kind); }
  std::vector<InfoEntry> info() const final;

  bool can_make_device_request() final {
    half_.throw_if_failed();
    return matched() || null_peer();
  }
  const Partita_Prequest& make_device_request() final;
  std::optional<Error> free_device_request() final;
  bool has_device_request(const Partita_Prequest& view) const final {
    return view.life != 0 && device_life_.load(std::memory_order_relaxed) == view.life;
  }
  std::optional<Error> untold_mistake() const final;

  bool matched() const { return half_.matched(); }
  Side side() const { return arguments_.side; }
  const RequestArguments& arguments() const { return arguments_; }
  Half& half() { return half_; }
  bool device_driven() const final { return arguments_.driver == link::Driver::device; }
  const link::Plan& plan() const { return half_.plan(); }  ///< once matched
  const std::string& link_name() const { return half_.link_name(); }
  const std::string& link_reason() const { return half_.link_reason(); }
  bool failed() const final { return half_.failed(); }
  void watch_kernels(KernelFindings& findings) final;
  void fail_kernels(const Error& error) final { fail_kernels(error, Mail::Caller::may_call_the_mpi); }

  std::string explain() const override;
  int waits_for() const override { return arguments_.peer; }
  std::uint64_t how_far() const override;

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

  bool wants_progress_ = false;              ///< an open epoch needs host steps all along
  bool kernels_want_progress_ = false;       ///< and would need none but for the device request
  std::unique_ptr<DeviceSide> device_;       ///< while the program has a device request; kernels mark then
  std::atomic<partita_u32> device_life_{0};  ///< of its device request, which is found by that

 private:
  void fail_kernels(const Error& error, Mail::Caller caller);
  std::optional<Epoch> end_epoch();

  bool progress_is_wanted_ = false;  ///< by the open epoch
  int looks_in_vain_ = 0;            ///< by the watch
};

}  // namespace partita
