// Partitions that become complete together leave together; one whose neighbours are late leaves alone. Two ranks in one
// process, over a fake link.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/backoff.hpp"
#include "support/fake_transfer.hpp"
#include "support/party.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::int32_t merged_partitions = 8;
constexpr std::int64_t partition_bytes = 1024;
/// Neighbours come this late, and later than any look.
constexpr milliseconds late{1};
/// A machine may take a core away for that long.
constexpr milliseconds much_later{2000};

/// The clock of the sender's looks: the machine's, until the test stops it, and moves it by hand.
class LooksClock {
 public:
  static Holds::Clock::time_point now() {
    const std::int64_t stopped_ns = stopped_ns_.load();
    return stopped_ns == 0 ? steady_clock::now() : steady_clock::time_point(nanoseconds(stopped_ns));
  }
  static void stop() { stopped_ns_ = nanoseconds(steady_clock::now().time_since_epoch()).count(); }
  static void move(nanoseconds by) { stopped_ns_ += by.count(); }
  static void go_on() { stopped_ns_ = 0; }

 private:
  static inline std::atomic<std::int64_t> stopped_ns_{0};
};

class Merging : public testing::Test {
 protected:
  static constexpr int cores_to_spare = 1;

  Merging() { connect(merged_partitions); }
  ~Merging() override {
    LooksClock::go_on();
    sender.progress.stop_thread();
  }

  static HalfTerms terms(const FakeRank& at, std::int32_t count, std::int32_t wish) {
    HalfTerms terms;
    terms.side = at.rank == 0 ? Side::send : Side::recv;
    terms.peer = at.rank == 0 ? 1 : 0;
    terms.communicator = at.communicator;
    terms.tag = 7;
    terms.shape = {{count, count * partition_bytes}, wish, 0};
    return terms;
  }
  void connect(std::int32_t count, std::int32_t wish = 0) {
    to = std::make_unique<RecvParty>(receiver.services, terms(receiver, count, wish));
    from = std::make_unique<SendParty>(sender.services, terms(sender, count, wish));
    receiver.matcher.add(to->half);
    sender.matcher.add(from->half);
    while (!post.empty()) {
      const Letter letter = post.take(0);
      (letter.to == 0 ? sender : receiver).mail.take(letter);
    }
    ASSERT_TRUE(from->half.matched());
  }
  void start() {
    to->start();
    from->start();
    std::fill(from->buffer.begin(), from->buffer.end(), static_cast<std::byte>(++round_));
    sender.first.puts = 0;
  }
  void complete_all() {
    for (std::int32_t p = 0; p < from->half.plan().send_partitions(); ++p) EXPECT_TRUE(from->half.complete(p));
  }
  void expect_complete() {
    EXPECT_TRUE(from->half.all_finished());
    EXPECT_TRUE(to->half.all_arrived());
    EXPECT_EQ(to->buffer, from->buffer);
  }
  /// An epoch whose partitions come together; in how many transfers they left.
  int close_epoch() {
    start();
    const auto before = steady_clock::now();
    complete_all();
    took = steady_clock::now() - before;
    // What a look may have taken meanwhile is put by now, or in a moment.
    const auto give_up = steady_clock::now() + much_later;
    while (!from->half.all_finished() && steady_clock::now() < give_up) std::this_thread::yield();
    expect_complete();
    return sender.first.puts;
  }
  /// Close epochs until one leaves in a single transfer.
  bool comes_to_merge() {
    for (int epoch = 0; epoch < 5000; ++epoch) {
      if (close_epoch() == 1) return true;
    }
    return false;
  }
  /// How long one partition was on its way whose neighbours are not complete.
  steady_clock::duration time_alone(std::int32_t partition) {
    const auto before = steady_clock::now();
    EXPECT_TRUE(from->half.complete(partition));
    while (!to->half.arrived({partition, partition + 1}) && steady_clock::now() < before + much_later) cpu_relax();
    return steady_clock::now() - before;
  }

  Post post;
  FakeRank sender{post, 0, cores_to_spare, nullptr, LooksClock::now};
  FakeRank receiver{post, 1};
  std::unique_ptr<RecvParty> to;
  std::unique_ptr<SendParty> from;
  steady_clock::duration took{};  ///< to complete the partitions of the last close epoch

 private:
  int round_ = 0;
};

TEST_F(Merging, each_partition_of_a_kilobyte_can_travel_alone) {
  EXPECT_EQ(from->half.plan().transport_partitions(), merged_partitions);
  sender.progress.start_thread();
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(close_epoch(), merged_partitions) << "the first epochs are early";
}

TEST_F(Merging, partitions_that_come_together_leave_together_once_that_is_known) {
  sender.progress.start_thread();
  ASSERT_TRUE(comes_to_merge());
}

TEST_F(Merging, looks_do_not_part_what_comes_together_epoch_after_epoch) {
  sender.progress.start_thread();
  ASSERT_TRUE(comes_to_merge());
  int merged = 0, parted = 0;
  const auto end = steady_clock::now() + much_later;
  for (int epoch = 0; epoch < 20'000 && steady_clock::now() < end; ++epoch) {
    const int transfers = close_epoch();
    if (transfers == 1) ++merged;
    // One that was early leaves in as many transfers as there are partitions.
    if (transfers > 1 && transfers < merged_partitions && took < Holds::patience) ++parted;
  }
  RecordProperty("merged", merged);
  RecordProperty("parted", parted);
  EXPECT_GT(merged, 20 * parted);
}

TEST_F(Merging, without_a_thread_that_would_end_a_wait_nothing_waits) {
  for (int epoch = 0; epoch < 50; ++epoch) EXPECT_EQ(close_epoch(), merged_partitions);
}

TEST_F(Merging, who_wishes_for_a_number_of_transfers_gets_them) {
  connect(merged_partitions, merged_partitions);
  sender.progress.start_thread();
  for (int epoch = 0; epoch < 50; ++epoch) EXPECT_EQ(close_epoch(), merged_partitions);
}

TEST_F(Merging, one_whose_neighbours_are_late_leaves_alone_in_any_epoch) {
  sender.progress.start_thread();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(comes_to_merge());
    start();
    auto longest = steady_clock::duration::zero();
    for (const std::int32_t p : {3, 0, 7, 1, 2, 4, 6, 5}) {
      longest = std::max(longest, time_alone(p));
      std::this_thread::sleep_for(late);
    }
    EXPECT_LT(longest, much_later);
    expect_complete();
    EXPECT_EQ(sender.first.puts, merged_partitions);
  }
}

/// As long as the clock says that the wait is not over, however long that takes; and then at once.
TEST_F(Merging, what_waits_leaves_when_the_clock_says_so) {
  sender.progress.start_thread();
  bool waited = false;
  for (int tries = 0; tries < 20 && !waited; ++tries) {
    ASSERT_TRUE(comes_to_merge());
    start();
    LooksClock::stop();
    EXPECT_TRUE(from->half.complete(0));
    waited = sender.first.puts == 0;  // else no look was under way, and it has left by itself
    if (waited) {
      std::this_thread::sleep_for(late);
      EXPECT_EQ(sender.first.puts, 0);
      LooksClock::move(Holds::patience - nanoseconds(1));
      std::this_thread::sleep_for(late);
      EXPECT_EQ(sender.first.puts, 0);
      LooksClock::move(nanoseconds(1));
      const auto give_up = steady_clock::now() + much_later;
      while (sender.first.puts == 0 && steady_clock::now() < give_up) std::this_thread::yield();
      EXPECT_EQ(sender.first.puts, 1) << "at the first look at the clock";
    }
    LooksClock::go_on();
    for (std::int32_t p = 1; p < merged_partitions; ++p) EXPECT_TRUE(from->half.complete(p));
    while (!from->half.all_finished()) std::this_thread::yield();
    expect_complete();
  }
  EXPECT_TRUE(waited);
}

/// A thread that was long without a core finds the looks ended, and lets its partition go by itself: that is no wait in
/// vain, and needs another try.
TEST_F(Merging, after_a_wait_in_vain_the_next_epochs_are_early) {
  sender.progress.start_thread();
  bool early = false;
  for (int tries = 0; tries < 20 && !early; ++tries) {
    ASSERT_TRUE(comes_to_merge());
    start();
    EXPECT_LT(time_alone(0), much_later);
    for (std::int32_t p = 1; p < merged_partitions; ++p) EXPECT_TRUE(from->half.complete(p));
    while (!from->half.all_finished()) std::this_thread::yield();
    early = close_epoch() == merged_partitions;
  }
  EXPECT_TRUE(early);
}

TEST_F(Merging, a_pause_of_the_whole_program_leaves_nothing_waiting) {
  sender.progress.start_thread();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(comes_to_merge());
    start();
    std::this_thread::sleep_for(milliseconds(50));  // the looks have ended
    EXPECT_LT(time_alone(5), much_later);
    for (const std::int32_t p : {0, 1, 2, 3, 4, 6, 7}) EXPECT_TRUE(from->half.complete(p));
    while (!from->half.all_finished()) std::this_thread::yield();
    expect_complete();
  }
}

TEST_F(Merging, what_waits_when_its_epoch_is_given_up_does_not_leave) {
  sender.progress.start_thread();
  ASSERT_TRUE(comes_to_merge());
  start();
  from->half.give_up();
  from->half.give_up_epoch();
  from->half.set_active(false);
  EXPECT_TRUE(from->half.complete(2));
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(to->half.arrived({2, 3}));
}

/// FakeSender throws where a transport partition travels twice.
TEST_F(Merging, of_several_threads_each_partition_travels_once_with_its_bytes) {
  constexpr std::int32_t many = 100;
  constexpr int threads = 3;
  connect(many);
  sender.progress.start_thread();
  Random random(20260302, 1);
  for (int epoch = 0; epoch < 200; ++epoch) {
    const std::int64_t pause = epoch % 3 == 0 ? random.between(1, 200) : 0;
    start();
    std::vector<std::thread> workers;
    for (int w = 0; w < threads; ++w) {
      workers.emplace_back([&, w] {
        for (std::int32_t p = w; p < many; p += threads) {
          if (pause > 0 && p % 7 == w) std::this_thread::sleep_for(microseconds(pause));
          from->half.complete(p);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    while (!from->half.all_finished() && !from->half.failed()) std::this_thread::yield();
    ASSERT_FALSE(from->half.failed());
    expect_complete();
  }
}

}  // namespace
}  // namespace partita::test
