// Sends of the MPI's whose bytes are offered to the receiver.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "two_sided/message.hpp"
#include "two_sided/offers.hpp"
#include "two_sided/staged_request.hpp"

namespace partita {

/// One message of the MPI's, in the program's mode and with its envelope, that holds an offer; each start of a
/// persistent one makes a new one. It is complete once the MPI's is, and what was offered is the program's again. Where
/// nothing can be offered just then the message is staged: no send waits for its receiver to make room for an offer.
class OfferedSend final : public StagedRequest {
 public:
  /// `memory`: what Offers::offered() gave for the arguments.
  OfferedSend(Offers& offers, const TwoSidedArguments& arguments, OfferedMemory memory,
              std::shared_ptr<Communicator> communicator);
  ~OfferedSend() override;

  bool goes_on_when_freed() const override { return true; }
  /// A send cannot be taken back.
  void cancel() override {}
  void close() override;
  void abandon(const std::optional<Error>& cause) override;
  const char* kind() const override { return names_of(arguments_.call).kind; }
  std::string explain() const override;
  int waits_for() const override { return memory_.receiver; }

 private:
  void fetch() override;
  int call_mpi(MPI_Request* request) override;
  int start_mpi(MPI_Request* request) override;
  int send_image(MPI_Request* request) const;
  const char* call_name() const override { return names_of(arguments_.call).call; }
  void begin_delivery(const MPI_Status&) override {}
  bool settled() override;
  const char* memory_name() const override { return "device"; }
  std::string reason() const override { return "offered to its receiver"; }
  void leave_to_the_mpi() noexcept override;
  bool may_be_cancelled() const override { return false; }
  void give_up() noexcept;

  Offers& offers_;
  const TwoSidedArguments arguments_;
  const OfferedMemory memory_;
  std::byte* const record_;           ///< what the MPI sends
  std::unique_ptr<SentOffer> offer_;  ///< of the open epoch
  std::unique_ptr<HostImage> image_;  ///< or what that stages in its place
  bool is_complete_ = false;          ///< what is staged then stays for whoever receives it
  bool is_the_mpis_ = false;
};

}  // namespace partita
