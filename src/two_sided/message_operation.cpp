#include "two_sided/message_operation.hpp"

#include <optional>
#include <string>
#include <utility>

#include "two_sided/offered_send.hpp"
#include "two_sided/open_receive.hpp"

namespace partita {

std::unique_ptr<Operation> make_message_operation(Offers& offers, GpuLanes& lanes, const TwoSidedArguments& arguments,
                                                  MayOffer may_offer, std::shared_ptr<Communicator> communicator) {
  const bool may_be_offer = offers.on() && arguments.count >= 0 && arguments.datatype != MPI_DATATYPE_NULL;
  if (may_be_offer && receives(arguments.call) && arguments.rank != MPI_PROC_NULL) {
    if (is_matched_receive(arguments.call)) {
      if (auto known = offers.probed().communicator_of(arguments.message)) communicator = std::move(known);
    }
    return std::make_unique<OpenReceive>(offers, arguments, std::move(communicator));
  }
  std::string why_not_offered;
  if (may_be_offer && may_offer == MayOffer::yes) {
    if (auto memory = offers.offered(arguments, communicator.get(), why_not_offered))
      return std::make_unique<OfferedSend>(offers, arguments, std::move(*memory), std::move(communicator));
  }
  return std::make_unique<TwoSidedMessage>(lanes, arguments, std::move(communicator), std::move(why_not_offered));
}

}  // namespace partita
