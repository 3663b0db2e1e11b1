// When looks end what waits, by a clock that the test moves.
#include "transfer/holds.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "transfer/pace.hpp"

namespace partita::test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Each reading takes a while.
constexpr nanoseconds reading{250};
/// The progress thread's longest between two looks.
constexpr microseconds nap{20};

nanoseconds passed{0};

Holds::Clock::time_point read_clock() {
  passed += reading;
  return Holds::Clock::time_point(passed);
}

/// What holds something from a time on.
class Sender final : public Holding {
 public:
  std::uint64_t held() override {
    if (!begins_at || passed < *begins_at || left_at) return 0;
    if (!found_at) found_at = passed;
    return number;
  }
  void end_hold(std::uint64_t seen) noexcept override {
    if (seen == number) left_at = passed;
  }
  std::uint32_t epochs_opened() const override { return 1; }

  std::uint64_t number = 7;
  std::optional<nanoseconds> begins_at;
  std::optional<nanoseconds> found_at;  ///< by a look
  std::optional<nanoseconds> left_at;
};

class HoldsTest : public testing::Test {
 protected:
  HoldsTest() { holds.add(sender); }
  ~HoldsTest() override { holds.remove(sender); }

  Progress progress{0};
  Holds holds{progress, read_clock};
  Sender sender;
};

TEST_F(HoldsTest, end_nothing_where_nothing_waits) {
  holds.look();
  EXPECT_FALSE(sender.left_at);
}

/// Not before, and at the first reading of the clock from then on.
TEST_F(HoldsTest, end_a_wait_when_their_patience_is_over) {
  sender.begins_at = passed;
  holds.look();
  ASSERT_TRUE(sender.left_at);
  const nanoseconds waited = *sender.left_at - *sender.found_at;
  EXPECT_GE(waited, Holds::patience);
  EXPECT_LE(waited, Holds::patience + 2 * reading);
}

/// Whenever it begins: behind the look that has just not seen it at the worst.
TEST_F(HoldsTest, end_a_wait_within_50_us) {
  for (nanoseconds begin{0}; begin <= nap + Holds::patience; begin += nanoseconds(500)) {
    sender.left_at.reset();
    sender.found_at.reset();
    const nanoseconds begins_at = passed + begin;
    sender.begins_at = begins_at;
    for (int looks = 0; looks < 10 && !sender.left_at; ++looks) {
      holds.look();
      passed += nap;
    }
    ASSERT_TRUE(sender.left_at) << begin.count();
    EXPECT_GT(*sender.left_at, begins_at + Holds::patience);
    EXPECT_LE(*sender.left_at, begins_at + Pace::longest_hold) << begin.count();
  }
}

/// Its neighbours have come, and the group has left; or another one has joined it.
TEST_F(HoldsTest, leave_alone_what_is_another_set_by_then) {
  class Changing final : public Holding {
   public:
    std::uint64_t held() override { return ++number; }
    void end_hold(std::uint64_t seen) noexcept override { ended = seen; }
    std::uint32_t epochs_opened() const override { return 1; }
    std::uint64_t number = 0;
    std::uint64_t ended = 0;
  } changing;
  holds.add(changing);
  holds.look();
  EXPECT_EQ(changing.ended, 1U) << "the look names the set that it has seen";
  holds.remove(changing);
}

}  // namespace
}  // namespace partita::test
