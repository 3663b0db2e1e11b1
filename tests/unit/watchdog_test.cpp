// What the watchdog says of a case that does not end in time.
#include "support/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr long limit_s = 2;
constexpr int code = 70;
constexpr auto longer_than_the_limit = std::chrono::seconds(10 * limit_s);

void begin() {
  start_watchdog(3, limit_s);
  watch_case("Suite.case");
}

void hang() {
  begin();
  step("the first");
  step("the second");
  std::this_thread::sleep_for(longer_than_the_limit);
}

void be_slow() {
  begin();
  const auto end = std::chrono::steady_clock::now() + longer_than_the_limit;
  for (int round = 1; std::chrono::steady_clock::now() < end; ++round) {
    step("round " + std::to_string(round));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(WatchdogDeathTest, tells_how_long_a_case_that_hangs_stands_in_its_last_step) {
  EXPECT_EXIT(
      hang(), testing::ExitedWithCode(code),
      "rank 3 is at its time limit in Suite\\.case; its last step \\(number 2, begun (0\\.9|[1-9][0-9]*\\.)[0-9]+ s "
      "ago\\): the second\nrank 3: the main thread stands in");
}

TEST(WatchdogDeathTest, tells_that_the_steps_of_a_slow_case_go_on) {
  EXPECT_EXIT(be_slow(), testing::ExitedWithCode(code), "\\(number [1-9][0-9]+, begun 0\\.[0-9]+ s ago\\): round ");
}

}  // namespace
}  // namespace partita::test
