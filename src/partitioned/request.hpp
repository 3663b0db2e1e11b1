// What partitioned sends and receives have in common.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/layout.hpp"
#include "partitioned/gpu/device_request.hpp"
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
class Request : public Operation, protected Half::User, protected DeviceRequest::Owner {
 public:
  /// `half` and what `facets` names are the derived class's, and made after this.
  Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets);

  void close() final;
  void fill_status(MPI_Status* status) const final;
  bool active() const final { return half_.active(); }
  bool open() const final { return active() || device_.has_news(); }
  void fail(const Error& error) final { half_.fail_on_both_sides("gave its request up", error); }
  void abandon(const std::optional<Error>& cause) final;
  void withdraw() override;
  std::vector<Half*> halves() final { return {&half_}; }
  bool in_gpu_memory() const final { return !memory::is_host(place_.kind); }
  std::vector<InfoEntry> info() const final;

  const RequestArguments& arguments() const { return arguments_; }
  Half& half() { return half_; }

  std::string explain() const final;
  int waits_for() const final { return arguments_.peer; }
  std::uint64_t how_far() const final;

 protected:
  /// An epoch opens. Throws Error if none may. A mistake of a kernel that nobody was told gives the request up.
  void check_startable();
  /// " (1, 2, 5, …)": the first few of `numbers`, for explain().
  static std::string listed(const std::vector<std::int64_t>& numbers);
  /// Of the open epoch of a matched request: whether everything has left, or arrived. May throw.
  virtual bool epoch_is_over() = 0;
  /// The open epoch ends with an error: nothing more of it may leave. given_up_ is set, and no step of the progress
  /// engine runs meanwhile.
  virtual void give_up_epoch() {}
  /// How far the open epoch has come, for explain().
  virtual std::string describe_epoch() const = 0;
  /// The same as a number, of a matched request.
  virtual std::uint64_t partitions_so_far() const = 0;
  /// The epoch was opened on the link; until it is closed its steps are taken, if the link needs them.
  void want_progress();
  /// The calling thread may take steps that copy GPU memory.
  void enter_gpu() const;
  /// The direction, the peer and the shape.
  std::string name() const final;
  bool matched() const { return half_.matched(); }
  bool device_driven() const { return arguments_.driver == link::Driver::device; }
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

  DeviceRequest device_;
  bool link_wants_progress_ = false;  ///< an open epoch needs host steps all along

 private:
  std::optional<Epoch> end_epoch();

  bool progress_is_wanted_ = false;  ///< by the open epoch
};

}  // namespace partita
