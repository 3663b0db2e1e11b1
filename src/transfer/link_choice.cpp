#include "transfer/link_choice.hpp"

#include <utility>

#include "core/current_error.hpp"
#include "transfer/aggregation.hpp"
#include "transfer/pieces.hpp"

namespace partita {
namespace {

/// What has come of looking at one link.
using Outcome = std::variant<LinkChoice, WantedLink, link::Refusal>;

std::string joined(const std::string& list, const std::string& item) {
  return list.empty() || item.empty() ? list + item : list + "; " + item;
}

Outcome try_forms(int rank, link::Link& link, const LinkOffer& form, const link::Endpoint& endpoint,
                  const SideShape& mine, const SideShape& theirs) {
  const bool in_gpu_memory = theirs.in_gpu_memory != 0 || mine.in_gpu_memory != 0;
  const link::Plan plan(theirs.partitioning, mine.partitioning, choose_transport_partitions(theirs, mine));
  const link::Target target = link::target_of(endpoint, rank, in_gpu_memory);
  const std::int32_t transfers = choose_transfers(theirs, mine, plan.transport_partitions(),
                                                  link.capabilities().smallest_transfer(target, plan.total_bytes()));
  const bool staged = (mine.in_gpu_memory != 0 && memory::is_host(endpoint.kind)) ||
                      (theirs.in_gpu_memory != 0 && memory::is_host(form.kind));
  const link::Plan wire = wire_of(plan, staged);
  // Pieces are put as their copies end, whatever was complete together.
  const std::int32_t runs = wire == plan ? transfers : wire.transport_partitions();
  try {
    auto made = link.receiver(endpoint, wire, runs, form.bytes);
    if (auto* refusal = std::get_if<link::Refusal>(&made)) return std::move(*refusal);
    auto& receiver = std::get<std::unique_ptr<link::Receiver>>(made);
    link::ReceiverAnswer answer = receiver->answer();
    return LinkChoice{plan,         wire,      transfers,     staged,    std::move(receiver),  std::move(answer.bytes),
                      answer.facts, form.link, endpoint.kind, form.kind, std::move(answer.way)};
  } catch (const std::exception&) {
    return link::Refusal{current_error().sentence()};  // another link may serve
  }
}

/// Takes the first pair of forms of the two sides' memory between which `link` moves bytes.
Outcome try_link(const Services& services, link::Link& link, Incoming& half, const SideShape& mine,
                 const Offer& offer) {
  const std::string& wish = half.terms().link;
  if (wish != "auto" && wish != link.name()) {
    return link::Refusal{fmt::format("rank {} demands link {}", services.rank, wish)};
  }
  std::string refusals;
  bool offered = false;
  for (const LinkOffer& form : offer.links) {
    if (form.link != link.name()) continue;
    offered = true;
    if (form.availability == Availability::held_back) return WantedLink{form.link};
    if (form.availability == Availability::refused) {
      refusals = joined(refusals, form.reason);
      continue;
    }
    for (const link::Endpoint& whole : half.endpoints()) {
      if (!link.capabilities().moves(form.kind, whole.kind)) continue;
      link::Endpoint endpoint = half.allocated(whole);
      endpoint.size_bytes = mine.total_bytes();
      Outcome outcome = try_forms(services.rank, link, form, endpoint, mine, offer.shape);
      if (auto* choice = std::get_if<LinkChoice>(&outcome)) {
        // Forms of GPU memory come before the one that is staged in host memory.
        if (!refusals.empty()) {
          choice->reason = joined(choice->reason, fmt::format("staged in host memory, since {}", refusals));
        }
        return outcome;
      }
      refusals = joined(refusals, std::get<link::Refusal>(outcome).reason);
    }
  }
  return link::Refusal{offered ? refusals : fmt::format("rank {} is built without it", offer.key.sender)};
}

/// How the receiver divides what it gets. An ordinary message may be shorter than its receive allows.
SideShape shape_of(const Incoming& half, const Offer& offer) {
  SideShape shape = half.shape();
  const std::int64_t total_bytes = offer.shape.total_bytes();
  if (!rules_of(offer.key.space).may_be_shorter || total_bytes == shape.total_bytes()) return shape;
  if (total_bytes > shape.total_bytes()) {
    throw Error(ErrorClass::truncate,
                "a persistent send is larger than its receive: {} bytes of rank {}, for which the receive has room for "
                "{} (tag {})",
                total_bytes, offer.key.sender, shape.total_bytes(), half.key.tag);
  }
  shape.partitioning = {1, total_bytes};
  return shape;
}

}  // namespace

std::optional<Error> why_purposes_differ(const Offer& offer, int receiver, const std::string& purpose) {
  if (offer.purpose == purpose) return {};
  return Error(ErrorClass::calls_differ,
               "the calls that meet differ: rank {} has made a {}, rank {} a {}; expected is the same on all ranks",
               offer.key.sender, offer.purpose, receiver, purpose);
}

std::variant<LinkChoice, WantedLink, NoLink> choose_link(const Services& services, Incoming& half, const Offer& offer) {
  const std::string& purpose = half.terms().purpose;
  if (const auto differ = why_purposes_differ(offer, services.rank, purpose)) throw Error(*differ);
  const SideShape mine = shape_of(half, offer);
  if (mine.total_bytes() != offer.shape.total_bytes()) {
    if (!purpose.empty()) {
      throw Error(ErrorClass::truncate,
                  "{}: rank {} sends {} bytes to rank {}, which receives {} bytes; expected are equal sizes", purpose,
                  offer.key.sender, offer.shape.total_bytes(), services.rank, mine.total_bytes());
    }
    throw Error(ErrorClass::truncate,
                "the sizes of a partitioned send and its receive differ: rank {} sends {} bytes in {} partitions, "
                "rank {} receives {} bytes in {} partitions (tag {}); expected are equal sizes",
                offer.key.sender, offer.shape.total_bytes(), offer.shape.partitions(), services.rank,
                mine.total_bytes(), mine.partitions(), half.key.tag);
  }
  if (rules_of(offer.key.space).divided_alike && mine.partitions() != offer.shape.partitions()) {
    throw Error(ErrorClass::truncate,
                "{}: the numbers of partitions differ: rank {} has {}, rank {} has {}; expected is the same number on "
                "all ranks",
                purpose, offer.key.sender, offer.shape.partitions(), services.rank, mine.partitions());
  }
  if (half.is_empty()) return NoLink{};
  std::string refusals;
  for (const auto& link : services.links) {
    Outcome outcome = try_link(services, *link, half, mine, offer);
    if (auto* wanted = std::get_if<WantedLink>(&outcome)) return std::move(*wanted);
    if (auto* choice = std::get_if<LinkChoice>(&outcome)) {
      choice->reason = joined(choice->reason, refusals);
      return std::move(*choice);
    }
    refusals = joined(refusals, fmt::format("{}: {}", link->name(), std::get<link::Refusal>(outcome).reason));
  }
  if (!purpose.empty()) {
    throw Error(ErrorClass::other, "{}: no link can move data from rank {} to rank {}: {}", purpose, offer.key.sender,
                services.rank, refusals);
  }
  throw Error(ErrorClass::other, "no link can move a {} send from rank {} to rank {} (tag {}): {}",
              rules_of(offer.key.space).noun, offer.key.sender, services.rank, half.key.tag, refusals);
}

}  // namespace partita
