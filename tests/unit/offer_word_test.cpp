// Who moves the bytes of an offered message: each step of the sender and of the receiver, and that of two which are
// made at once one wins.
#include "two_sided/offer_word.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "support/sanitized.hpp"

namespace partita::test {
namespace {

using Phase = OfferWord::Phase;
using Standing = OfferWord::Standing;

constexpr std::uint64_t number = 7;
constexpr int receiver = 3;

class Offered : public testing::Test {
 protected:
  Offered() { word.offer(number); }
  OfferWord word;
};

TEST_F(Offered, what_was_offered_is_open_and_nobodys) {
  EXPECT_EQ(word.standing(), (Standing{number, -1, Phase::open}));
}

TEST_F(Offered, the_receiver_claims_copies_and_ends) {
  EXPECT_TRUE(word.claim(number, receiver));
  EXPECT_EQ(word.standing(), (Standing{number, receiver, Phase::claimed}));
  EXPECT_FALSE(word.stage());
  EXPECT_FALSE(word.claim(number, receiver + 1));
  EXPECT_FALSE(word.wish(number, receiver + 1));
  EXPECT_FALSE(word.end(number, receiver + 1));
  EXPECT_TRUE(word.end(number, receiver));
  EXPECT_EQ(word.standing(), (Standing{number, receiver, Phase::ended}));
  EXPECT_FALSE(word.end(number, receiver));
}

TEST_F(Offered, the_sender_stages_what_the_receiver_wishes) {
  EXPECT_TRUE(word.wish(number, receiver));
  EXPECT_FALSE(word.claim(number, receiver));
  EXPECT_TRUE(word.stage());
  EXPECT_EQ(word.standing(), (Standing{number, receiver, Phase::staging}));
  EXPECT_TRUE(word.finish_staging(true));
  EXPECT_EQ(word.standing(), (Standing{number, receiver, Phase::staged}));
  EXPECT_TRUE(word.end(number, receiver));
}

TEST_F(Offered, a_claim_becomes_a_wish_where_the_memory_cannot_be_mapped) {
  EXPECT_TRUE(word.claim(number, receiver));
  EXPECT_TRUE(word.wish(number, receiver));
  EXPECT_TRUE(word.stage());
}

TEST_F(Offered, the_sender_stages_unasked_and_the_receiver_joins_before_or_behind_its_end) {
  for (const bool before : {true, false}) {
    word.offer(number);
    EXPECT_TRUE(word.stage());
    EXPECT_FALSE(word.claim(number, receiver));
    EXPECT_EQ(before, before && word.wish(number, receiver));
    EXPECT_TRUE(word.finish_staging(true));
    EXPECT_EQ(word.standing(), (Standing{number, before ? receiver : -1, Phase::staged}));
    EXPECT_TRUE(word.wish(number, receiver));
    EXPECT_EQ(word.standing(), (Standing{number, receiver, Phase::staged}));
    EXPECT_TRUE(word.end(number, receiver));
  }
}

TEST_F(Offered, the_receiver_hears_that_staging_has_failed) {
  EXPECT_TRUE(word.wish(number, receiver));
  EXPECT_TRUE(word.stage());
  EXPECT_TRUE(word.finish_staging(false));
  EXPECT_EQ(word.standing().phase, Phase::failed);
  EXPECT_TRUE(word.end(number, receiver));
}

TEST_F(Offered, what_the_receiver_has_ended_is_not_staged_any_more) {
  EXPECT_TRUE(word.stage());
  EXPECT_TRUE(word.end(number, receiver));
  EXPECT_FALSE(word.finish_staging(true));
  EXPECT_TRUE(word.withdraw());
  EXPECT_EQ(word.standing().phase, Phase::ended);
}

TEST_F(Offered, the_sender_withdraws_what_nobody_uses) {
  const std::vector<std::function<void()>> ways = {[] {}, [&] { word.wish(number, receiver); }, [&] { word.stage(); },
                                                   [&] {
                                                     word.stage();
                                                     word.finish_staging(true);
                                                   }};
  for (const auto& way : ways) {
    word.offer(number);
    way();
    EXPECT_TRUE(word.withdraw());
    EXPECT_FALSE(word.claim(number, receiver));
    EXPECT_FALSE(word.wish(number, receiver));
    EXPECT_FALSE(word.end(number, receiver));
    EXPECT_EQ(word.standing().phase, Phase::withdrawn);
  }
}

TEST_F(Offered, the_sender_does_not_withdraw_what_the_receiver_uses) {
  EXPECT_TRUE(word.claim(number, receiver));
  EXPECT_FALSE(word.withdraw());
  word.offer(number);
  EXPECT_TRUE(word.wish(number, receiver));
  EXPECT_TRUE(word.stage());
  EXPECT_TRUE(word.finish_staging(true));
  EXPECT_FALSE(word.withdraw());
}

TEST_F(Offered, nobody_changes_an_offer_of_another_number) {
  EXPECT_FALSE(word.claim(number + 1, receiver));
  EXPECT_FALSE(word.wish(number + 1, receiver));
  EXPECT_FALSE(word.end(number + 1, receiver));
  EXPECT_EQ(word.standing(), (Standing{number, -1, Phase::open}));
}

TEST(OfferWord, has_room_for_the_largest_numbers_and_ranks) {
  OfferWord word;
  EXPECT_EQ(word.standing(), Standing{});
  word.offer(OfferWord::most_numbers - 1);
  EXPECT_TRUE(word.claim(OfferWord::most_numbers - 1, OfferWord::most_ranks - 1));
  EXPECT_EQ(word.standing(), (Standing{OfferWord::most_numbers - 1, OfferWord::most_ranks - 1, Phase::claimed}));
}

/// By whatever the receiver meets it with first, or the sender's giving it up; and by nothing that follows.
TEST_F(Offered, meets_its_receiver_once) {
  const auto nothing = [] {};
  const auto staging = [&] { word.stage(); };
  const auto staged = [&] {
    word.stage();
    word.finish_staging(true);
  };
  const auto failed = [&] {
    word.stage();
    word.finish_staging(false);
  };
  const std::vector<std::function<void()>> ways = {nothing, staging, staged, failed};
  const std::vector<std::function<OfferWord::Step()>> steps = {
      [&] { return word.claim(number, receiver); }, [&] { return word.wish(number, receiver); },
      [&] { return word.end(number, receiver); }, [&] { return word.withdraw(); }};
  EXPECT_FALSE(OfferWord().withdraw().met);
  for (const auto& way : ways) {
    for (const auto& first : steps) {
      word.offer(number);
      way();
      EXPECT_FALSE(word.end(number + 1, receiver).met);
      const OfferWord::Step step = first();
      EXPECT_EQ(step.met, step.made);
      if (!step.made) continue;
      for (const auto& later : steps) EXPECT_FALSE(later().met);
      EXPECT_FALSE(word.withdraw().met);
    }
  }
}

/// So that the sender looks for wishes while there are some, and no longer.
TEST_F(Offered, counts_a_wish_until_it_is_served_or_in_vain) {
  const std::vector<std::function<OfferWord::Step()>> ends = {
      [&] { return word.stage(); }, [&] { return word.withdraw(); }, [&] { return word.end(number, receiver); }};
  for (const bool is_claimed : {false, true}) {
    for (const auto& end : ends) {
      word.offer(number);
      if (is_claimed) {
        EXPECT_EQ(word.claim(number, receiver).wishes, 0);
      }
      EXPECT_EQ(word.wish(number, receiver).wishes, 1);
      EXPECT_EQ(word.wish(number, receiver).wishes, 0);
      EXPECT_EQ(end().wishes, -1);
      EXPECT_EQ(end().wishes, 0);
    }
  }
  word.offer(number);
  EXPECT_EQ(word.stage().wishes, 0);
  EXPECT_EQ(word.wish(number, receiver).wishes, 0) << "it is served already";
  EXPECT_EQ(word.end(number, receiver).wishes, 0);
}

/// Makes both steps at once, again and again; which of them were made is told to `judge`.
void race(const std::function<bool(OfferWord&, std::uint64_t)>& of_sender,
          const std::function<bool(OfferWord&, std::uint64_t)>& of_receiver,
          const std::function<void(Standing, bool, bool)>& judge) {
  constexpr std::uint64_t rounds = repetitions(20'000U, 2'000U);
  OfferWord word;
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> ended{0};
  bool was_made = false;
  std::thread other([&] {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      while (begun.load() < round) std::this_thread::yield();
      was_made = of_receiver(word, round);
      ended.store(round);
    }
  });
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    word.offer(round);
    begun.store(round);
    const bool own = of_sender(word, round);
    while (ended.load() < round) std::this_thread::yield();
    judge(word.standing(), own, was_made);
  }
  other.join();
}

bool claims(OfferWord& word, std::uint64_t round) {
  return word.claim(round, receiver).made;
}

TEST(OfferWordRace, either_the_receiver_claims_or_the_sender_stages) {
  race([](OfferWord& word, std::uint64_t) { return word.stage().made; }, claims,
       [](Standing standing, bool staged, bool claimed) {
         ASSERT_NE(staged, claimed);
         ASSERT_EQ(standing.phase, staged ? Phase::staging : Phase::claimed);
       });
}

TEST(OfferWordRace, either_the_receiver_claims_or_the_sender_withdraws) {
  race([](OfferWord& word, std::uint64_t) { return word.withdraw().made; }, claims,
       [](Standing standing, bool withdrawn, bool claimed) {
         ASSERT_NE(withdrawn, claimed);
         ASSERT_EQ(standing.phase, withdrawn ? Phase::withdrawn : Phase::claimed);
       });
}

TEST(OfferWordRace, the_receiver_or_the_sender_counts_it_as_met) {
  race([](OfferWord& word, std::uint64_t) { return word.withdraw().met; },
       [](OfferWord& word, std::uint64_t round) { return word.wish(round, receiver).met; },
       [](Standing standing, bool given_up, bool met) {
         ASSERT_NE(given_up, met);
         ASSERT_EQ(standing.phase, Phase::withdrawn);
       });
}

TEST(OfferWordRace, a_receiver_that_comes_as_the_sender_stages_is_not_lost) {
  race([](OfferWord& word, std::uint64_t) { return word.stage().made && word.finish_staging(true); },
       [](OfferWord& word, std::uint64_t round) { return word.wish(round, receiver).made; },
       [](Standing standing, bool staged, bool wished) {
         ASSERT_TRUE(staged);
         ASSERT_TRUE(wished);
         ASSERT_EQ(standing.receiver, receiver);
         ASSERT_EQ(standing.phase, Phase::staged);
       });
}

TEST(OfferWordRace, what_is_staged_is_either_withdrawn_or_taken) {
  race(
      [](OfferWord& word, std::uint64_t) {
        word.stage();
        word.finish_staging(true);
        return word.withdraw().made;
      },
      [](OfferWord& word, std::uint64_t round) {
        if (!word.wish(round, receiver)) return false;
        Standing standing = word.standing();
        while (standing.phase != Phase::staged && standing.phase != Phase::withdrawn) standing = word.standing();
        return standing.phase == Phase::staged && word.end(round, receiver).made;
      },
      [](Standing standing, bool withdrawn, bool taken) {
        ASSERT_TRUE(withdrawn || taken);
        ASSERT_EQ(standing.phase, taken ? Phase::ended : Phase::withdrawn);
      });
}

TEST(OfferWordRace, what_is_written_before_a_step_is_seen_behind_it) {
  int memory = 0;
  int image = 0;
  race(
      [&](OfferWord& word, std::uint64_t round) {
        image = static_cast<int>(round);
        word.stage();
        word.finish_staging(true);
        while (word.standing().phase != Phase::ended) std::this_thread::yield();
        return memory == static_cast<int>(round);
      },
      [&](OfferWord& word, std::uint64_t round) {
        while (word.standing().phase != Phase::staged) std::this_thread::yield();
        const bool seen = image == static_cast<int>(round);
        memory = static_cast<int>(round);
        word.end(round, receiver);
        return seen;
      },
      [](Standing, bool memory_seen, bool image_seen) { ASSERT_TRUE(memory_seen && image_seen); });
}

}  // namespace
}  // namespace partita::test
