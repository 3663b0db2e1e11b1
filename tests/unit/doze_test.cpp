// Which call ends which rest of a thread.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "core/doze.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds short_nap{100};
/// What a call has to end. Far longer than a thread takes to hear of it.
constexpr milliseconds long_nap{900};

enum class Rest { precise_nap, nap, sleep };

/// Whether the system says that thread `id` of this process waits for something.
bool waits(long id) {
  std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

/// A thread that rests once.
class Sleeper {
 public:
  Sleeper(Doze& doze, Rest rest, milliseconds time = long_nap)
      : thread_([this, &doze, rest, time] { take(doze, rest, time); }) {
    while (!is_over_ && (id_ == 0 || !waits(id_))) std::this_thread::yield();
  }
  /// How long the rest took. It must have an end.
  Clock::duration rested() {
    thread_.join();
    return rested_;
  }

 private:
  void take(Doze& doze, Rest rest, milliseconds time) {
    const std::uint32_t calls = doze.calls();
    const auto begin = Clock::now();
    id_ = ::syscall(SYS_gettid);
    if (rest == Rest::precise_nap) doze.nap_precisely(calls, time);
    if (rest == Rest::nap) doze.nap(calls, time);
    if (rest == Rest::sleep) doze.sleep(calls);
    rested_ = Clock::now() - begin;
    is_over_ = true;
  }

  std::atomic<long> id_{0};
  std::atomic<bool> is_over_{false};  ///< the caller may have had no core all along
  Clock::duration rested_{};
  std::thread thread_;
};

/// Whether `call` ends a rest. A thread may be without a core for longer than that takes, but hardly twice.
template <class Call>
bool ends(Doze& doze, Rest rest, const Call& call) {
  int ended = 0;
  for (int tries = 0; tries < 5; ++tries) {
    Sleeper resting(doze, rest);
    call();
    if (resting.rested() < long_nap) ++ended;
  }
  return ended >= 4;
}

TEST(Doze, a_call_for_sleepers_ends_a_sleep_only) {
  Doze doze;
  Sleeper asleep(doze, Rest::sleep);
  doze.wake_sleeper();
  asleep.rested();
  Sleeper napping(doze, Rest::nap, short_nap);
  doze.wake_sleeper();
  EXPECT_GE(napping.rested(), short_nap);
}

TEST(Doze, a_call_for_nappers_leaves_a_precise_nap_to_its_end) {
  Doze doze;
  for (const Rest rest : {Rest::sleep, Rest::nap}) EXPECT_TRUE(ends(doze, rest, [&] { doze.wake_napper(); }));
  Sleeper precise(doze, Rest::precise_nap, short_nap);
  doze.wake_napper();
  EXPECT_GE(precise.rested(), short_nap);
}

TEST(Doze, a_call_for_all_ends_whatever_rest) {
  Doze doze;
  for (const Rest rest : {Rest::sleep, Rest::nap, Rest::precise_nap}) {
    EXPECT_TRUE(ends(doze, rest, [&] { doze.wake(); }));
  }
}

/// Else what it tells of could be slept over.
TEST(Doze, a_rest_does_not_begin_where_a_call_came_before) {
  Doze doze;
  const std::uint32_t calls = doze.calls();
  doze.wake_sleeper();
  const auto begin = Clock::now();
  doze.nap_precisely(calls, long_nap);
  EXPECT_LT(Clock::now() - begin, long_nap);
}

}  // namespace
}  // namespace partita::test
