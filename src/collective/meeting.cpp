#include "collective/meeting.hpp"

#include <algorithm>
#include <bit>

#include "core/current_error.hpp"

namespace partita::collective {
namespace {

/// Keeps the legs apart from those that move data.
constexpr int tag = 1;

/// The partition of such a leg.
constexpr link::Range the_only_one{0, 1};

int round_count(const MeetingTerms& terms) {
  return static_cast<int>(std::bit_width(terms.world_ranks.size() - 1));
}

}  // namespace

/// Slot 0 is what is sent, in every round; slot 1 and so on are what comes.
Meeting::Meeting(const Services& services, const MeetingTerms& terms)
    : services_(services),
      memory_({services.host_blocks, services.device_memory, {}}, 1, Form::packed, {}, {},
              std::vector<std::int64_t>(static_cast<std::size_t>(round_count(terms)) + 1, 1)) {
  const int size = static_cast<int>(terms.world_ranks.size());
  const auto leg_terms = [&](int rank, int slot) {
    const int peer = terms.world_ranks[static_cast<std::size_t>(rank)];
    return LegTerms{rank,
                    peer,
                    terms.communicator,
                    terms.link,
                    {Buffer::slots, slot, 0, terms.is_held ? 1 : 0},
                    terms.purpose,
                    terms.places,
                    tag};
  };
  for (int round = 0; round < round_count(terms); ++round) {
    const int distance = 1 << round;
    auto to = std::make_unique<SendLeg>(services, memory_, leg_terms((terms.rank + distance) % size, 0));
    auto from =
        std::make_unique<ReceiveLeg>(services, memory_, leg_terms((terms.rank + size - distance) % size, round + 1));
    if (terms.is_held) rounds_.push_back({to.get(), from.get()});
    legs_.push_back(std::move(to));
    legs_.push_back(std::move(from));
  }
}

Meeting::~Meeting() {
  stop();
}

const Leg* Meeting::differing_leg() const {
  if (legs_have_met_.load(std::memory_order_acquire)) return nullptr;
  bool all_have_met = true;
  for (const auto& leg : legs_) {
    if (leg->half().purposes_differ()) return leg.get();
    all_have_met &= leg->half().matched();
  }
  if (all_have_met) legs_have_met_.store(true, std::memory_order_release);
  return nullptr;
}

void Meeting::start() {
  started_.fetch_add(1, std::memory_order_release);
  if (!rounds_.empty()) services_.progress.activate(*this);
}

bool Meeting::is_awaited() const {
  const auto exclusive = services_.progress.exclusive();
  return !stopped_ && !failure_ && !rounds_.empty() && !has_caught_up();
}

void Meeting::stop() {
  const auto exclusive = services_.progress.exclusive();
  stopped_ = true;
  services_.progress.dismiss(*this);
}

/// Looks at the epoch that was opened last.
bool Meeting::all_have_left() const {
  return opened_ == 0 || std::ranges::all_of(rounds_, [](const Round& round) { return round.to->is_over(); });
}

/// Nothing is left to do until this rank starts another epoch.
bool Meeting::has_caught_up() const {
  return met_.load(std::memory_order_relaxed) == started_.load(std::memory_order_acquire) && all_have_left();
}

/// To be asked before a look, so that a peer which ends after its message is no loss.
const Leg* Meeting::lost_leg() const {
  const auto lost = std::ranges::find_if(legs_, [](const auto& leg) { return leg->half().is_lost(); });
  return lost == legs_.end() ? nullptr : lost->get();
}

void Meeting::open_epoch() {
  for (const auto& leg : legs_) leg->half().start();
  ++opened_;
  round_ = 0;
  rounds_.front().to->send(the_only_one);
}

/// Under the engine's lock. Returns whether something happened.
bool Meeting::go_on() {
  bool moved = false;
  for (;;) {
    if (opened_ == met_.load(std::memory_order_relaxed)) {
      if (opened_ == started_.load(std::memory_order_acquire) || !all_have_left()) return moved;
      open_epoch();
    }
    if (rounds_[round_].from->first_missing(the_only_one) == the_only_one.begin) return moved;
    rounds_[round_].from->take(the_only_one);
    moved = true;
    arrivals_.fetch_add(1, std::memory_order_relaxed);
    if (++round_ < rounds_.size()) {
      rounds_[round_].to->send(the_only_one);
    } else {
      for (const auto& leg : legs_) leg->half().record(Trace::Event::completed);
      met_.store(opened_, std::memory_order_release);
    }
  }
}

/// As go_on(). Who fails, or hears that a peer has, says so to all: they wait for this rank in turn. `lost`: of before.
bool Meeting::go_on_or_fail(const Leg* lost) {
  try {
    for (const auto& leg : legs_) leg->half().throw_if_failed();
    const bool moved = go_on();
    if (lost != nullptr && lost->half().ending.has_failed() && !has_caught_up()) throw lost->half().why_lost();
    return moved;
  } catch (const std::exception&) {
    fail(current_error());
    throw;
  }
}

void Meeting::fail(const Error& error) {
  failure_ = error;
  for (const auto& leg : legs_) leg->half().say(leg->first_lost(), "could not say that it has started", error);
}

bool Meeting::is_over() {
  if (rounds_.empty()) return true;
  const auto exclusive = services_.progress.exclusive();
  if (failure_) throw Error(*failure_);
  const Leg* const lost = lost_leg();
  go_on_or_fail(lost);
  if (has_caught_up()) return true;
  if (lost != nullptr) throw lost->half().why_lost();
  return false;
}

const Leg* Meeting::awaited() const {
  if (met_.load(std::memory_order_acquire) == started_.load(std::memory_order_relaxed)) return nullptr;
  const auto exclusive = services_.progress.exclusive();
  return round_ < rounds_.size() ? rounds_[round_].from : nullptr;
}

ActiveStep::Outcome Meeting::step() noexcept {
  try {
    if (failure_) return Outcome::idle;
    const bool moved = go_on_or_fail(lost_leg());
    if (has_caught_up()) return Outcome::idle;
    return moved ? Outcome::moved : Outcome::waiting;
  } catch (const std::exception&) {
    return Outcome::idle;  // it has failed, and the peers have heard
  }
}

}  // namespace partita::collective
