#include "two_sided/offer_word.hpp"

#include <optional>

namespace partita {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share them");

// In a word: the number of the offer, the receiver's rank and one more, the phase.
constexpr int phase_bits = 4;
constexpr int rank_bits = 24;
constexpr std::uint64_t rank_mask = (std::uint64_t{1} << rank_bits) - 1;
constexpr std::uint64_t phase_mask = (std::uint64_t{1} << phase_bits) - 1;

using Standing = OfferWord::Standing;
using Phase = OfferWord::Phase;

std::uint64_t word_of(const Standing& standing) {
  const auto rank = static_cast<std::uint64_t>(standing.receiver) + 1;
  return (standing.number << rank_bits | rank) << phase_bits | static_cast<std::uint64_t>(standing.phase);
}

Standing standing_of(std::uint64_t word) {
  Standing standing;
  standing.phase = static_cast<Phase>(word & phase_mask);
  standing.receiver = static_cast<int>(word >> phase_bits & rank_mask) - 1;
  standing.number = word >> (phase_bits + rank_bits);
  return standing;
}

bool waits_for_receiver(const Standing& standing) {
  const bool is_offered =
      standing.phase != Phase::none && standing.phase != Phase::withdrawn && standing.phase != Phase::ended;
  return is_offered && standing.receiver == -1;
}

OfferWord::Step step_between(const Standing& before, const Standing& after) {
  return {true, waits_for_receiver(before) && !waits_for_receiver(after),
          (after.phase == Phase::wished ? 1 : 0) - (before.phase == Phase::wished ? 1 : 0)};
}

bool has_no_other_receiver(const Standing& standing, int receiver) {
  return standing.receiver == -1 || standing.receiver == receiver;
}

}  // namespace

Standing OfferWord::standing() const {
  return standing_of(word_.load(std::memory_order_acquire));
}

/// `next(standing)` gives what follows, or nothing where the step is not possible. Pairs with the loads of the other
/// side's steps, and of its standing().
template <class Next>
OfferWord::Step OfferWord::advance(const Next& next) {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  while (true) {
    const Standing before = standing_of(word);
    const std::optional<Standing> following = next(before);
    if (!following) return {};
    if (word_.compare_exchange_weak(word, word_of(*following), std::memory_order_acq_rel, std::memory_order_acquire))
      return step_between(before, *following);
  }
}

void OfferWord::offer(std::uint64_t number) {
  word_.store(word_of({number, -1, Phase::open}), std::memory_order_release);
}

OfferWord::Step OfferWord::stage() {
  return advance([](Standing standing) -> std::optional<Standing> {
    if (standing.phase != Phase::open && standing.phase != Phase::wished) return {};
    standing.phase = Phase::staging;
    return standing;
  });
}

bool OfferWord::finish_staging(bool succeeded) {
  const Step step = advance([succeeded](Standing standing) -> std::optional<Standing> {
    if (standing.phase != Phase::staging) return {};
    standing.phase = succeeded ? Phase::staged : Phase::failed;
    return standing;
  });
  return step.made;
}

OfferWord::Step OfferWord::withdraw() {
  return advance([](Standing standing) -> std::optional<Standing> {
    if (standing.phase == Phase::ended) return standing;
    const bool is_in_use =
        standing.phase == Phase::claimed || (standing.phase == Phase::staged && standing.receiver != -1);
    if (is_in_use) return {};
    standing.phase = Phase::withdrawn;
    return standing;
  });
}

OfferWord::Step OfferWord::claim(std::uint64_t number, int receiver) {
  return advance([=](Standing standing) -> std::optional<Standing> {
    if (standing.number != number || standing.phase != Phase::open) return {};
    return Standing{number, receiver, Phase::claimed};
  });
}

OfferWord::Step OfferWord::wish(std::uint64_t number, int receiver) {
  return advance([=](Standing standing) -> std::optional<Standing> {
    if (standing.number != number || !has_no_other_receiver(standing, receiver)) return {};
    switch (standing.phase) {
      case Phase::open:
      case Phase::claimed:
        return Standing{number, receiver, Phase::wished};
      case Phase::wished:
      case Phase::staging:
      case Phase::staged:
      case Phase::failed:
        return Standing{number, receiver, standing.phase};
      default:
        return {};
    }
  });
}

OfferWord::Step OfferWord::end(std::uint64_t number, int receiver) {
  return advance([=](Standing standing) -> std::optional<Standing> {
    if (standing.number != number || !has_no_other_receiver(standing, receiver)) return {};
    if (standing.phase == Phase::none || standing.phase == Phase::withdrawn || standing.phase == Phase::ended)
      return {};
    return Standing{number, receiver, Phase::ended};
  });
}

}  // namespace partita
