// Calls of the MPI's that move buffers in GPU memory and make a request: collectives, and a send with a receive.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>

#include "two_sided/call_to_stage.hpp"
#include "two_sided/host_mirrors.hpp"
#include "two_sided/staged_request.hpp"

namespace partita {

/// The request of such a call on mirrors of its buffers, which live as long as it. What the call was given besides is
/// the MPI's to keep, or the program's, as without Partita.
class StagedCall final : public StagedRequest {
 public:
  /// Whether the mirrors have what the MPI reads, of a call that is not persistent.
  enum class Fetched : bool { no, yes };
  /// `communicator`: whose error handler hears of errors that are not the MPI's.
  StagedCall(HostMirrors mirrors, const CallToStage& call, std::shared_ptr<Communicator> communicator,
             Fetched fetched = Fetched::no)
      : StagedRequest(call.is_persistent, std::move(communicator)),
        mirrors_(std::move(mirrors)),
        call_(call),
        fetched_(fetched) {}
  ~StagedCall() override;

  /// The MPI forbids it for collectives (MPI-4, section 6.12).
  bool goes_on_when_freed() const override { return !call_.is_collective; }
  /// In an array the MPI would call another communicator's error handler for one that is apart.
  void leave_asking_to(AskedTogether& together) override {
    if (!call_.is_apart) StagedRequest::leave_asking_to(together);
  }
  /// Errors of one that is apart come while no call of the program's is there to hear of them; or not any more.
  void keep_silent(bool is_silent) { is_silent_ = is_silent; }
  const char* kind() const override { return call_.is_collective ? "collective" : "sendrecv"; }
  std::string explain() const override;

 private:
  void fetch() override {
    if (fetched_ == Fetched::yes) return;
    mirrors_.await_stream(communicator().get());
    mirrors_.fetch();
  }
  int call_mpi(MPI_Request* request) override;
  const char* call_name() const override { return call_.name; }
  void begin_delivery(const MPI_Status&) override { mirrors_.begin_delivery(); }
  void hear(int code) override;
  bool settled() override { return mirrors_.settled(); }
  std::string reason() const override { return "staged in host memory"; }
  void leave_to_the_mpi() noexcept override { mirrors_.leave_to_the_mpi(); }
  bool may_be_cancelled() const override { return false; }

  HostMirrors mirrors_;
  const CallToStage call_;
  const Fetched fetched_;
  bool is_silent_ = false;
};

}  // namespace partita
