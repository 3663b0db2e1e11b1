// Which operation a message of the MPI's is.
#pragma once

#include <cstdint>
#include <memory>

#include "two_sided/offers.hpp"

namespace partita {

/// Whether a send may be an offer, so that its buffer is read later than at the call.
enum class MayOffer : std::uint8_t { no, yes };

/// Where messages may be offers, each receive looks at what it gets. `communicator`: whose error handler hears of
/// errors that are not the MPI's. Throws Error.
std::unique_ptr<Operation> make_message_operation(Offers& offers, GpuLanes& lanes, const TwoSidedArguments& arguments,
                                                  MayOffer may_offer, std::shared_ptr<Communicator> communicator);

}  // namespace partita
