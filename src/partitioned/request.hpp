// What partitioned sends and receives have in common.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "partitioned/gpu/device_request.hpp"
#include "partitioned/gpu/gpu_packing.hpp"
#include "partitioned/gpu/stream_epochs.hpp"
#include "partitioned/message.hpp"
#include "partitioned/operation.hpp"
#include "partitioned/request_services.hpp"
#include "transfer/half.hpp"

namespace partita {

/// A point-to-point request: a message, the half of its transfer, and what kernels have of it. The half is matched
/// once, by the Matcher, on any thread.
class Request : public Operation, protected Half::User, protected DeviceRequest::Owner, protected GpuPacking::Owner {
 public:
  /// `half` and what `facets` names are the derived class's, and made after this.
  Request(const RequestServices& services, RequestArguments arguments, Half& half, Facets facets);

  bool is_host_driven() const final { return !message_.is_device_driven(); }
  bool active() const final { return half_.active(); }
  bool open() const final { return active() || device_.has_news(); }
  bool matched() const final;
  void match_is_seen() final;
  void close() override;
  void fill_status(MPI_Status* status) const final;
  void fail(const Error& error) final { half_.fail_on_both_sides("gave its request up", error); }
  void abandon(const std::optional<Error>& cause) final;
  void withdraw() final;
  std::vector<Half*> halves() final { return {&half_}; }
  bool in_gpu_memory() const final { return message_.in_gpu_memory(); }
  const char* kind() const final { return message_.is_sent() ? "send" : "recv"; }
  std::vector<InfoEntry> info() const final;
  std::string explain() const final;
  int waits_for() const final { return half_.peer(); }
  std::uint64_t how_far() const final;

  /// How streams move the message by themselves, where both sides let them; once matched.
  virtual std::optional<link::StreamRoute> stream_route() = 0;
  const Message& message() const { return message_; }

 protected:
  /// Whether everything of the open epoch has left, or arrived. The request is matched. May throw.
  virtual bool epoch_is_over() = 0;
  /// What the kernels of a request that is matched mark or await. It lives as long as the request.
  virtual const link::Plan& plan_for_kernels() const { return half_.plan(); }
  /// How far the open epoch has come, for explain().
  virtual std::string describe_epoch() const = 0;
  /// How many partitions of the open epoch have left, or arrived. The request is matched.
  virtual std::uint64_t partitions_so_far() const = 0;

  /// An epoch opens. Throws Error if none may. A mistake of a kernel that nobody was told gives the request up.
  void check_startable();
  /// The epoch was opened on the link, which wants its steps taken until it is closed.
  void want_progress();
  /// The calling thread may take steps that copy GPU memory.
  void enter_gpu() const;
  /// The message and the epoch: how sentences begin.
  std::string name() const final;
  Epoch epoch() const final { return half_.epoch(); }
  /// The match has been made. Throws Error where kernels cannot use the request.
  virtual link::DeviceRoute device_route() = 0;
  void could_not_move() noexcept final;
  void record(Trace::Event event, std::int64_t partition = -1) const { half_.record(event, partition); }
  void record(Trace::Event event, link::Range partitions) const { half_.record(event, partitions); }

  const RequestServices& services_;
  const Message message_;
  Half& half_;
  /// Whether no step of the progress engine packs, or unpacks, for the open epoch.
  bool is_packed() const { return packing_ == nullptr || packing_->all_told(); }

  DeviceRequest device_;
  StreamEpochs stream_epochs_;           ///< of a device-driven one
  std::unique_ptr<GpuPacking> packing_;  ///< where the buffer lies in GPU memory and has gaps
  bool link_wants_progress_ = false;     ///< an open epoch needs host steps all along

 private:
  partita_u32 sides() const final;
  link::Driver driver() const final { return half_.terms().driver; }
  memory::Place place() const final { return message_.place(); }
  bool is_to_nobody() const final { return message_.null_peer(); }
  bool knows_prequest_terms() const final;
  PrequestTerms prequest_terms() final;
  std::optional<Error> why_peers_are_lost(KernelFindings& findings) final;
  bool failed() const final { return half_.failed(); }
  bool given_up() const final { return half_.given_up(); }
  void throw_if_over() const final;
  void fail_for_kernels(const Error& error, Mail::Caller caller) final;
  void take_over_epochs() final;
  void hear_last_epoch(const std::optional<DeviceSide::LastEpoch>& last) final;
  void fail_alone(const Error& error) final { half_.fail(error); }
  bool failure_is_told() const final { return half_.failure_is_told(); }

  bool kernels_may_use_peer() const final { return message_.is_sent() && device_.kernels_may_use_peer(); }
  void look_if_startable();
  bool epoch_is_lost() const;
  std::optional<Epoch> end_epoch(const std::optional<Error>& cause);
  void close_packing() noexcept;

  bool progress_is_wanted_ = false;    ///< by the open epoch
  std::optional<Error> why_given_up_;  ///< until the peer is told, with the epoch that only the GPU knows
};

}  // namespace partita
