// Which link moves a transfer: chosen by the receiver among those that the sender offers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "link/link.hpp"
#include "transfer/incoming.hpp"
#include "transfer/services.hpp"
#include "transfer/setup_messages.hpp"

namespace partita {

/// A link that takes the offer, with the receiver that it has made for that.
struct LinkChoice {
  link::Plan plan;
  link::Plan wire;  ///< wire_of(plan, staged): what the link moves it in
  std::int32_t transfers = 1;
  bool staged = false;  ///< one side at least is
  std::unique_ptr<link::Receiver> receiver;
  wire::Bytes answer;         ///< of the receiver, for the sender's link
  link::ReceiverFacts facts;  ///< and what it has told of itself
  std::string link;
  memory::Kind kind{};         ///< of this side's form
  memory::Kind sender_kind{};  ///< of the form that the sender offered
  std::string reason;
};
/// The first link that could take it is one that the sender holds back: it must be asked for.
struct WantedLink {
  std::string link;
};
/// Both sides are empty.
struct NoLink {};

/// Why the receive of `receiver`, made for `purpose`, cannot meet what `offer` is made for; nothing where it can.
std::optional<Error> why_purposes_differ(const Offer& offer, int receiver, const std::string& purpose);

/// Takes the first of the links, in their order, that moves bytes between a form of the sender's memory that `offer`
/// has and a form of `half`'s. Local. Throws Error where none does, or where the sizes differ.
std::variant<LinkChoice, WantedLink, NoLink> choose_link(const Services& services, Incoming& half, const Offer& offer);

}  // namespace partita
