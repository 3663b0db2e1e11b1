// What ranks read on the board of a communicator: when they agree, and when not.
#include "two_sided/peer_board.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace partita {
namespace {

using Question = PeerBoard::Question;
using Outcome = PeerBoard::Outcome;

/// Two ranks and their board.
class PeerBoardOfTwo : public testing::Test {
 protected:
  static constexpr std::uint64_t first_call = 1;
  Outcome outcome(Question question, std::uint64_t call = first_call) {
    const Outcome seen = one.answers(call, question).outcome;
    EXPECT_EQ(other.answers(call, question).outcome, seen) << "both read the same";
    return seen;
  }

  alignas(64) std::array<std::byte, 4096> memory{};
  PeerBoard one{memory.data(), 2, 0, nullptr};
  PeerBoard other{memory.data(), 2, 1, nullptr};
};

TEST_F(PeerBoardOfTwo, all_have_to_say_yes) {
  ASSERT_LE(PeerBoard::size_bytes(2), memory.size());
  one.begin();
  other.begin();
  one.answer(first_call, Question::wants, {.yes = true});
  EXPECT_EQ(outcome(Question::wants), Outcome::open);
  EXPECT_EQ(one.answers(first_call, Question::wants).rank, 1) << "who is waited for";
  other.answer(first_call, Question::wants, {.yes = true, .much = true});
  EXPECT_EQ(outcome(Question::wants), Outcome::all_yes);
  EXPECT_TRUE(one.answers(first_call, Question::wants).any_much);
}

TEST_F(PeerBoardOfTwo, one_no_decides) {
  one.begin();
  one.leave();
  EXPECT_EQ(outcome(Question::wants), Outcome::some_no);
}

TEST_F(PeerBoardOfTwo, an_answer_to_a_later_call_is_a_no_to_this_one) {
  one.answer(first_call + 1, Question::wants, {.yes = true});
  other.answer(first_call, Question::wants, {.yes = true});
  EXPECT_EQ(outcome(Question::wants), Outcome::some_no);
}

TEST_F(PeerBoardOfTwo, the_end_is_awaited_from_all) {
  one.answer(first_call, Question::ended, {});
  EXPECT_EQ(outcome(Question::ended), Outcome::open);
  other.answer(first_call, Question::ended, {.yes = true});
  EXPECT_EQ(outcome(Question::ended), Outcome::some_no);
}

/// They would take what is left of an earlier call for offers of this one.
TEST_F(PeerBoardOfTwo, ranks_that_reduce_do_not_agree_with_others) {
  one.answer(first_call, Question::wants, {.yes = true, .much = true, .reduces = true});
  other.answer(first_call, Question::wants, {.yes = true, .much = true});
  EXPECT_EQ(outcome(Question::wants), Outcome::some_no);
  other.answer(first_call, Question::wants, {.yes = true, .much = true, .reduces = true});
  EXPECT_EQ(outcome(Question::wants), Outcome::all_yes);
}

TEST_F(PeerBoardOfTwo, the_end_of_calls_is_for_all) {
  one.begin();
  EXPECT_FALSE(one.have_calls_ended(first_call));
  other.end_calls(first_call);
  EXPECT_TRUE(one.have_calls_ended(first_call));
  EXPECT_TRUE(other.have_calls_ended(first_call + 1));
  EXPECT_EQ(one.who_gave_up(), -1) << "it is no error";
}

/// What ranks have begun before may still be under way.
TEST_F(PeerBoardOfTwo, calls_end_from_one_on) {
  one.end_calls(first_call + 2);
  EXPECT_FALSE(other.have_calls_ended(first_call + 1));
  EXPECT_TRUE(other.have_calls_ended(first_call + 2));
  other.end_calls(first_call + 3);
  EXPECT_TRUE(one.have_calls_ended(first_call + 2)) << "the first counts";
  other.end_calls(first_call + 1);
  EXPECT_TRUE(one.have_calls_ended(first_call + 1));
  EXPECT_FALSE(one.have_calls_ended(first_call));
}

}  // namespace
}  // namespace partita
