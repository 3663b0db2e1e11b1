// The Matcher's part for sends: offers, and connections once they are answered.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"
#include "transfer/matcher.hpp"

namespace partita {
namespace {

/// So long a send waits for what stands in the way of its connection to go, unless half of PARTITA_TIMEOUT is shorter,
/// ...
constexpr std::chrono::seconds longest_obstacle(5);
/// ... and it is tried behind such pauses.
constexpr std::chrono::milliseconds shortest_pause(1);
constexpr std::chrono::milliseconds longest_pause(16);

}  // namespace

void Matcher::post_offer(Outgoing& half) {
  Unconnected& unanswered = unconnected_[half.id];
  unanswered.half = &half;
  unanswered.offer = {half.key, half.id, half.shape(), {}, half.terms().purpose, half.terms().enclosed};
  if (!half.is_empty()) offer_links(unanswered, half);
  mail_.post(half.peer(), write(unanswered.offer));
  services_.progress.want();  // until the answer
}

void Matcher::offer_links(Unconnected& unanswered, const Outgoing& half) {
  const std::string& wish = half.terms().link;
  const std::vector<link::Endpoint> endpoints = half.endpoints();
  unanswered.offer.links.reserve(services_.links.size() * endpoints.size());
  for (const auto& link : services_.links) {
    for (const link::Endpoint& endpoint : endpoints) {
      if (!memory::is_host(endpoint.kind) && !link->capabilities().moves(endpoint.kind, endpoint.kind)) continue;
      LinkOffer& offered = unanswered.offer.links.emplace_back(
          LinkOffer{std::string(link->name()), endpoint.kind, Availability::refused, {}, {}});
      if (wish != "auto" && wish != link->name()) {
        offered.reason = fmt::format("link {} is demanded", wish);
      } else if (wish == "auto" && link->capabilities().costly_to_start && !unanswered.opened.empty()) {
        offered.availability = Availability::held_back;
      } else {
        unanswered.open(offered, *link, endpoint);
      }
    }
  }
}

/// Whether send `sender_id` waits for an answer of rank `receiver`.
bool Matcher::awaits_answer(std::uint64_t sender_id, int receiver) {
  const auto found = unconnected_.find(sender_id);
  return found != unconnected_.end() && !found->second.answered && is_between(sender_id, Side::send, receiver);
}

void Matcher::take_ask(int from, const Ask& ask) {
  const std::uint64_t sender_id = ask.sender_id;
  const std::string& wanted = ask.link;

  const std::lock_guard lock(mutex_);
  if (!awaits_answer(sender_id, from)) {
    throw wire::malformed("of rank {} asks for link {} for send {}, which waits for no answer of it", from, wanted,
                          sender_id);
  }
  Unconnected& unanswered = unconnected_.at(sender_id);
  try {
    open_wanted(unanswered, sender_id, wanted);
    mail_.post(from, write(unanswered.offer));
  } catch (const std::bad_alloc&) {
    // Then both sides say so.
    for (LinkOffer& offered : unanswered.offer.links) {
      offered.availability = Availability::refused;
      offered.bytes.clear();
      offered.reason = "out of memory";
    }
    insist([&] { mail_.post(from, write(unanswered.offer)); });
  }
}

/// Starts `wanted` for the send of `unanswered`.
void Matcher::open_wanted(Unconnected& unanswered, std::uint64_t sender_id, const std::string& wanted) {
  for (LinkOffer& offered : unanswered.offer.links) {
    if (offered.link != wanted) continue;
    if (retired_.contains(sender_id)) {
      offered = {wanted, offered.kind, Availability::refused, {}, "the sender has freed its request"};
      continue;
    }
    for (const auto& link : services_.links) {
      for (const link::Endpoint& endpoint : unanswered.half->endpoints()) {
        if (link->name() == wanted && endpoint.kind == offered.kind) unanswered.open(offered, *link, endpoint);
      }
    }
  }
}

void Matcher::take_answer(int from, Answer answer, const Error* unread) {
  const std::uint64_t sender_id = answer.sender_id;

  const std::lock_guard lock(mutex_);
  if (!awaits_answer(sender_id, from)) {
    throw wire::malformed("of rank {} answers send {}, which waits for no answer of it", from, sender_id);
  }
  services_.progress.unwant();
  Unconnected& answered = unconnected_.at(sender_id);
  answered.answered = true;
  Outgoing* const half = answered.half;
  if (answer.receiver_id == 0) {
    unconnected_.erase(sender_id);
    insist([&] {
      half->fail(unread != nullptr ? *unread : Error(answer.verdict.error_class, "{}", answer.verdict.sentence));
    });
    retired_.erase(sender_id);
    return;
  }
  if (half->is_empty()) {
    unconnected_.erase(sender_id);
    half->match_empty();
    retired_.erase(sender_id);
    return;
  }
  if (retired_.contains(sender_id)) {
    // Freed before it was matched: the link's half stays until the receiver says bye.
    insist([&] { retire_unmatched(*half, answer.receiver_id); });
    return;
  }
  half->peer_id = answer.receiver_id;
  auto obstacle = connect(answered, answer, unread);
  if (!obstacle) return;
  try {
    connect_later(answered, std::move(answer), *obstacle);
  } catch (const std::bad_alloc&) {
    insist([&] { half->fail_on_both_sides("could not connect", obstacle->error); });
  }
}

/// Connects a send, or fails it on both sides. Gives what stands in the way if that may go.
std::optional<link::Obstacle> Matcher::connect(Unconnected& answered, const Answer& answer, const Error* unread) {
  Outgoing& half = *answered.half;
  try {
    if (unread != nullptr) throw Error(*unread);
    if (!answer.choice) throw wire::malformed("of rank {} names a receive, but no link", half.peer());
    if (auto obstacle = answered.connect(*answer.choice)) return obstacle;
    link_report_.matched(true, half.peer(), half.link_name(), half.link_reason());
    half.send_last_word();  // it may have given up before
  } catch (const std::exception&) {
    const Error error = current_error();
    insist([&] { half.fail_on_both_sides("could not connect", error); });
  }
  unconnected_.erase(half.id);
  return {};
}

void Matcher::connect_later(Unconnected& answered, Answer answer, link::Obstacle obstacle) {
  Clock::duration limit = longest_obstacle;
  if (const double timeout_s = services_.settings.timeout_s; timeout_s > 0) {
    // The waits for the match shall end with the reason.
    limit = std::min(limit, std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s / 2)));
  }
  obstructed_.push_back(answered.half->id);
  answered.obstacle.emplace(Unconnected::Obstacle{std::move(answer), std::move(obstacle), Clock::now() + limit, {}});
  answered.obstacle->set_clear_at();
  pause_ = shortest_pause;
  next_try_ = Clock::now();
  services_.progress.activate(*this);
}

/// Tries once more to connect the sends that have an obstacle: other halves let go of what that may be first, and what
/// nobody uses is closed. The pauses between the rounds grow, since each calls the driver.
ActiveStep::Outcome Matcher::step() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (obstructed_.empty()) return Outcome::idle;
    if (Clock::now() < next_try_) return Outcome::waiting;
  }
  release_peers();
  make_way();
  const std::lock_guard lock(mutex_);
  const bool moved = try_again();
  pause_ = moved ? shortest_pause : std::min<Clock::duration>(2 * pause_, longest_pause);
  next_try_ = Clock::now() + pause_;
  if (obstructed_.empty()) return Outcome::idle;
  return moved ? Outcome::moved : Outcome::waiting;
}

/// Returns whether one of them waits no more.
bool Matcher::try_again() {
  bool moved = false;
  for (std::size_t i = 0; i < obstructed_.size();) {  // one that is connected may add others
    const std::uint64_t id = obstructed_[i];
    if (is_obstructed(i)) {
      ++i;
    } else {
      std::erase(obstructed_, id);
      moved = true;
    }
  }
  return moved;
}

/// Whether it still is, after one more try. All in front of it are.
bool Matcher::is_obstructed(std::size_t which) noexcept {
  const std::uint64_t sender_id = obstructed_[which];
  const auto found = unconnected_.find(sender_id);
  if (found == unconnected_.end()) return false;  // the receiving half was freed
  Unconnected& answered = found->second;
  if (retired_.contains(sender_id)) answered.obstacle.reset();  // the program has
  if (!answered.obstacle) return false;
  Unconnected::Obstacle& obstacle = *answered.obstacle;
  try {
    if (!place_was_tried(which)) {
      auto again = connect(answered, obstacle.answer);
      if (!again) return false;
      obstacle.found = std::move(*again);
      obstacle.set_clear_at();
    }
    // What is unused goes before the next try, whatever the time.
    if (obstacle.found.is_unused || Clock::now() < obstacle.give_up) return true;
    answered.half->fail_on_both_sides("could not connect", obstacle.found.error);
  } catch (const std::exception&) {
    return true;  // there is no memory even to tell of it: the next round does
  }
  answered.obstacle.reset();  // the rest stays until the receiver says bye
  return false;
}

/// Whether another one waits for the same place, in front of it.
bool Matcher::place_was_tried(std::size_t which) const {
  const auto of = [this](std::uint64_t id) -> const Unconnected& { return unconnected_.at(id); };
  const Unconnected& mine = of(obstructed_[which]);
  return std::any_of(obstructed_.begin(), obstructed_.begin() + static_cast<std::ptrdiff_t>(which),
                     [&](std::uint64_t id) {
                       const Unconnected& other = of(id);
                       return other.half->peer() == mine.half->peer() && other.obstacle &&
                              other.obstacle->found.place == mine.obstacle->found.place;
                     });
}

/// What nobody uses has waited long enough to be closed. Not under the matcher's lock, since the driver may wait for
/// kernels; under the engine's no send goes meanwhile, and no other one is obstructed.
void Matcher::make_way() noexcept {
  for (std::size_t i = 0; i < obstructed_.size(); ++i) {
    Unconnected* const answered = unused_obstacle(i);
    if (answered == nullptr) continue;
    try {
      answered->make_way();
    } catch (const std::exception&) {
      // The try that follows finds what is in the way still.
    }
  }
}

/// A send whose obstacle is to be closed now, if it is that.
Unconnected* Matcher::unused_obstacle(std::size_t which) {
  const std::lock_guard lock(mutex_);
  const auto found = unconnected_.find(obstructed_[which]);
  if (found == unconnected_.end() || retired_.contains(found->first)) return nullptr;
  const auto& obstacle = found->second.obstacle;
  if (!obstacle || !obstacle->clear_at || Clock::now() < *obstacle->clear_at) return nullptr;
  return &found->second;
}

/// Halves whose peers' halves were freed let go of what they hold of those, if they can by now. Not under the
/// matcher's lock, as the GPU is asked; under the engine's no half goes meanwhile.
void Matcher::release_peers() {
  std::erase_if(holding_, [](Half* half) { return half->release_peer(half->kernels_are_done()); });
}

}  // namespace partita
