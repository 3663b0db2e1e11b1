// Receives of the MPI's that may get an offer in place of a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/active_steps.hpp"
#include "two_sided/looks_in_turn.hpp"
#include "two_sided/message.hpp"
#include "two_sided/offers.hpp"
#include "two_sided/staged_request.hpp"
#include "two_sided/taken_offer.hpp"

namespace partita {

/// One receive of the MPI's, into host memory or that of a GPU. What it gets is looked at: an offer is taken, and the
/// receive is complete when the bytes are there. Steps of the engine ask the MPI, too, while offers are on their way,
/// and go on with what it takes, so that a sender does not wait for this rank's next call.
class OpenReceive final : public StagedRequest, private ActiveStep, private LookedAt {
 public:
  /// Throws Error.
  OpenReceive(Offers& offers, const TwoSidedArguments& arguments, std::shared_ptr<Communicator> communicator);
  ~OpenReceive() override;

  bool goes_on_when_freed() const override { return true; }
  void seek_peers() override;
  void start() override;
  bool done() override;
  void leave_asking_to(AskedTogether& together) override;
  void withdraw() override;
  void close() override;
  void fail(const Error& error) override;
  void abandon(const std::optional<Error>& cause) override;
  void cancel() override;
  const char* kind() const override { return names_of(arguments_.call).kind; }
  std::string explain() const override;
  int waits_for() const override;

 private:
  bool has_room_for_offer() const { return room_bytes_ >= static_cast<std::int64_t>(OfferRecord::bytes); }
  void have_steps_taken();
  bool goes_on_by_steps() const {
    return !has_failed() && (taken_ != nullptr || (waits_for_stream() && has_room_for_offer()));
  }
  Outcome step() noexcept override;
  bool try_to_hold() override { return mutex_.try_lock(); }
  bool look_and_let_go() noexcept override;
  void answered(MPI_Request request, int code, const MPI_Status& status) noexcept override;
  void let_go() noexcept override;
  void cancel_if_wanted() noexcept override;
  void fetch() override;
  int call_mpi(MPI_Request* request) override;
  int start_mpi(MPI_Request* request) override;
  bool is_there(MPI_Status& status) override;
  bool has_found(std::optional<ProbedMessages::Message> found);
  int receive_found(MPI_Request* request);
  OfferRecord::Bytes received_record() const;
  void look_at(const OfferRecord::Bytes& message);
  const char* call_name() const override { return names_of(arguments_.call).call; }
  void begin_delivery(const MPI_Status& status) override;
  void refuse(const MPI_Status& status) noexcept override;
  void refuse(const OfferRecord::Bytes& message) noexcept;
  bool settled() override;
  const char* memory_name() const override { return image_ == nullptr ? "host" : "device"; }
  std::string reason() const override;
  void leave_to_the_mpi() noexcept override;
  bool may_be_cancelled() const override { return true; }
  void deliver(std::int64_t received_bytes);
  void unpack(std::int64_t received_bytes) const;
  std::byte* target() const;

  Offers& offers_;
  const TwoSidedArguments arguments_;
  const std::shared_ptr<const Layout> layout_;
  const std::int64_t room_bytes_;
  int device_ = -1;                   ///< -1: host memory
  std::unique_ptr<HostImage> image_;  ///< of GPU memory
  std::byte* packed_ = nullptr;       ///< of host memory with gaps
  bool packed_is_the_mpis_ = false;   ///< that may write there for good: it is not freed
  /// Guards what follows, and the epoch, against steps of the engine.
  mutable std::recursive_mutex mutex_;
  bool is_looking_ = false;  ///< a thread that holds it may come here again, by an error handler or a step
  bool is_posted_ = false;   ///< the engine asks the MPI for it
  std::unique_ptr<TakenOffer> taken_;
  std::string why_not_copied_;                    ///< the offer that came last
  std::optional<ProbedMessages::Message> found_;  ///< what a probe had taken from the MPI
};

}  // namespace partita
