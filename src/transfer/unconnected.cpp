#include "transfer/unconnected.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/current_error.hpp"
#include "transfer/pieces.hpp"

namespace partita {
namespace {

/// So long what nobody uses stays in the way at most, in the hope that no kernel can be waiting for this process.
constexpr std::chrono::milliseconds longest_wait_for_quiet(250);

/// Throws Error unless what the receiver chose is possible for this send.
link::Plan plan_of(const Outgoing& half, const Answer::Choice& choice) {
  const link::Partitioning& mine = half.shape().partitioning;
  if (choice.receiver.total_bytes() != mine.total_bytes() || choice.transport_partitions > mine.count()) {
    throw wire::malformed(
        "of rank {} plans {} bytes in {} transport partitions for a send of {} bytes in {} partitions", half.peer(),
        choice.receiver.total_bytes(), choice.transport_partitions, mine.total_bytes(), mine.count());
  }
  return {mine, choice.receiver, choice.transport_partitions};
}

}  // namespace

void Unconnected::Obstacle::set_clear_at() {
  if (!found.is_unused) {
    clear_at.reset();
  } else if (!clear_at) {
    clear_at = std::min(Clock::now() + longest_wait_for_quiet, give_up);
  }
}

void Unconnected::open(LinkOffer& offered, link::Link& link, const link::Endpoint& endpoint) {
  offered.availability = Availability::refused;
  try {
    auto made = link.sender(endpoint);
    if (auto* refusal = std::get_if<link::Refusal>(&made)) {
      offered.reason = refusal->reason;
      return;
    }
    auto& sender = std::get<std::unique_ptr<link::Sender>>(made);
    offered.bytes = sender->offer();
    opened.push_back({offered.link, offered.kind, std::move(sender)});
    offered.availability = Availability::offered;
  } catch (const std::exception&) {
    offered.reason = current_error().sentence();  // another link may serve
  }
}

std::optional<link::Obstacle> Unconnected::connect(const Answer::Choice& choice) {
  const link::Plan plan = plan_of(*half, choice);
  return half->connect(plan, wire_of(plan, choice.staged), choice.transfers, chosen(choice), choice.kind, choice.link,
                       choice.reason, choice.bytes);
}

std::unique_ptr<link::Sender>& Unconnected::chosen(const Answer::Choice& choice) {
  for (Opened& each : opened) {
    if (each.link == choice.link && each.kind == choice.kind && each.sender != nullptr) return each.sender;
  }
  throw Error(ErrorClass::internal, "the receiver chose link {}, which was not offered to it", choice.link);
}

void Unconnected::make_way() {
  if (!obstacle) return;
  const auto& choice = obstacle->answer.choice;
  if (choice) chosen(*choice)->make_way();
}

void Unconnected::release_memory() {
  for (Opened& each : opened) {
    if (each.sender != nullptr) each.sender->release_memory();
  }
}

}  // namespace partita
