// What goes on by itself: a ring of ranks in which each partition that arrives is reduced and marked for the next rank,
// on whichever thread makes progress. No thread waits for anything.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_transfer.hpp"
#include "support/party.hpp"
#include "transfer/continuations.hpp"

namespace partita::test {
namespace {

// ---- one continuation --------------------------------------------------------------------------------------

class Counting final : public Continuation {
 public:
  using Continuation::Continuation;
  void await() { arm(); }

  std::atomic<bool> come{false};
  bool cannot_come = false;
  int again = 0;  ///< so many times it arms itself in go_on()
  bool throws = false;
  std::atomic<int> went_on{0};
  std::string failure;

 private:
  bool reached() override {
    if (cannot_come) throw Error(ErrorClass::other, "it cannot come");
    return come;
  }
  void go_on() override {
    ++went_on;
    if (throws) throw Error(ErrorClass::other, "it cannot go on");
    if (again-- > 0) arm();
  }
  void failed(const Error& error) noexcept override { failure = error.sentence(); }
};

TEST(Continuation, goes_on_once_each_time_it_is_armed) {
  Progress progress(0);
  Counting counting(progress);
  counting.come = true;
  progress.poll();
  EXPECT_EQ(counting.went_on, 0);
  for (int n = 1; n <= 3; ++n) {
    counting.await();
    EXPECT_TRUE(counting.armed());
    progress.poll();
    progress.poll();
    EXPECT_EQ(counting.went_on, n);
    EXPECT_FALSE(counting.armed());
  }
  EXPECT_FALSE(progress.wanted());
}

TEST(Continuation, waits_until_it_comes_and_may_wait_again_within) {
  Progress progress(0);
  Counting counting(progress);
  counting.again = 2;
  counting.await();
  progress.poll();
  EXPECT_EQ(counting.went_on, 0);
  EXPECT_TRUE(progress.wanted());
  counting.come = true;
  for (int n = 0; n < 5; ++n) progress.poll();
  EXPECT_EQ(counting.went_on, 3);
  EXPECT_FALSE(progress.wanted());
}

TEST(Continuation, tells_its_owner_what_cannot_come_and_what_fails) {
  Progress progress(0);
  Counting counting(progress);
  counting.cannot_come = true;
  counting.await();
  progress.poll();
  EXPECT_EQ(counting.failure, "it cannot come");
  EXPECT_FALSE(counting.armed());
  counting.cannot_come = false;
  counting.come = counting.throws = true;
  counting.await();
  progress.poll();
  EXPECT_EQ(counting.failure, "it cannot go on");
  EXPECT_EQ(counting.went_on, 1);
  EXPECT_FALSE(progress.wanted());
}

TEST(Continuation, does_not_go_on_once_it_was_cancelled) {
  Progress progress(1);
  progress.start_thread();
  for (int round = 0; round < 300; ++round) {
    auto counting = std::make_unique<Counting>(progress);
    counting->again = round % 3 * 100;
    counting->await();
    if (round % 2 == 0) std::this_thread::yield();
    std::thread other([&] { counting->come = true; });
    counting->cancel();
    const int then = counting->went_on;
    other.join();
    std::this_thread::yield();
    EXPECT_EQ(counting->went_on, then);
    EXPECT_FALSE(counting->armed());
  }
  EXPECT_FALSE(progress.wanted());
}

// ---- a ring ------------------------------------------------------------------------------------------------

constexpr int ranks = 3;
constexpr std::int32_t continued_partitions = 5;
constexpr std::size_t numbers = 4;  ///< in a partition

class Ring;

/// Reduces a partition that has come from the rank before and marks it for the next one.
class Hop final : public AfterArrival {
 public:
  Hop(Ring& ring, int rank, std::int32_t partition);
  void begin() { await({partition_, partition_ + 1}); }

 private:
  void go_on() override;
  void failed(const Error& error) noexcept override;

  Ring& ring_;
  int rank_;
  std::int32_t partition_;
};

class Left final : public AfterLeaving {
 public:
  using AfterLeaving::AfterLeaving;
  std::atomic<int> times{0};

 private:
  void go_on() override { ++times; }
  void failed(const Error&) noexcept override {}
};

/// Rank 0 begins with numbers of its own; each next rank adds its own; at rank 0 the sum comes back.
class Ring {
 public:
  struct Place {
    Place(Post& post, int rank) : at(post, rank, 1) {}
    FakeRank at;
    std::unique_ptr<SendParty> to;
    std::unique_ptr<RecvParty> from;
    std::vector<std::unique_ptr<Hop>> hops;
    std::unique_ptr<Left> left;
    std::vector<std::string> failures = std::vector<std::string>(continued_partitions);
  };

  Ring() {
    for (int rank = 0; rank < ranks; ++rank) places.push_back(std::make_unique<Place>(post, rank));
    for (int rank = 0; rank < ranks; ++rank) {
      Place& place = *places[static_cast<std::size_t>(rank)];
      place.to = std::make_unique<SendParty>(place.at.services, terms(rank, Side::send, (rank + 1) % ranks));
      place.from = std::make_unique<RecvParty>(place.at.services, terms(rank, Side::recv, (rank + 2) % ranks));
      place.at.matcher.add(place.to->half);
      place.at.matcher.add(place.from->half);
      for (std::int32_t p = 0; p < continued_partitions; ++p)
        place.hops.push_back(std::make_unique<Hop>(*this, rank, p));
      place.left = std::make_unique<Left>(place.at.progress, place.to->half);
    }
    deliver_all();
  }
  ~Ring() {
    for (auto& place : places) place->at.progress.stop_thread();
    for (auto& place : places) {
      for (auto& hop : place->hops) hop->cancel();
      place->left->cancel();
    }
  }

  void deliver_all() {
    while (!post.empty()) {
      const Letter letter = post.take(0);
      places[static_cast<std::size_t>(letter.to)]->at.mail.take(letter);
    }
  }
  void start(int epoch) {
    for (auto& place : places) {
      place->to->start();
      place->from->start();
    }
    for (int rank = 0; rank < ranks; ++rank) {
      Place& place = *places[static_cast<std::size_t>(rank)];
      for (auto& hop : place.hops) hop->begin();
      place.left->await();
    }
    epoch_ = epoch;
  }
  /// Rank 0 marks `partition`.
  void begin(std::int32_t partition) {
    int* const to = numbers_of(places[0]->to->buffer, partition);
    for (std::size_t i = 0; i < numbers; ++i) to[i] = own(0, partition);
    places[0]->to->half.complete(partition);
  }
  void poll() {
    for (auto& place : places) place->at.progress.poll();
  }
  void hop(int rank, std::int32_t partition) {
    Place& place = *places[static_cast<std::size_t>(rank)];
    const int* const came = numbers_of(place.from->buffer, partition);
    if (rank == 0) {
      bool right = true;
      for (std::size_t i = 0; i < numbers; ++i) right &= came[i] == sum(partition);
      right_sums += right ? 1 : 0;
      ++sums;
      return;
    }
    int* const to = numbers_of(place.to->buffer, partition);
    for (std::size_t i = 0; i < numbers; ++i) to[i] = came[i] + own(rank, partition);
    place.to->half.complete(partition);
  }
  int own(int rank, std::int32_t partition) const { return epoch_ * 1000 + rank * 100 + partition; }
  int sum(std::int32_t partition) const { return own(0, partition) + own(1, partition) + own(2, partition); }

  Post post;
  std::vector<std::unique_ptr<Place>> places;
  std::atomic<int> sums{0};
  std::atomic<int> right_sums{0};

 private:
  static int* numbers_of(std::vector<std::byte>& buffer, std::int32_t partition) {
    return reinterpret_cast<int*>(buffer.data()) + static_cast<std::size_t>(partition) * numbers;
  }
  HalfTerms terms(int rank, Side side, int peer) {
    HalfTerms terms;
    terms.side = side;
    terms.peer = peer;
    terms.space = Space::collective;
    terms.communicator = places[static_cast<std::size_t>(rank)]->at.communicator;
    terms.shape = {{continued_partitions, continued_partitions * static_cast<std::int64_t>(numbers * sizeof(int))},
                   continued_partitions,
                   0};
    return terms;
  }

  std::atomic<int> epoch_{0};
};

Hop::Hop(Ring& ring, int rank, std::int32_t partition)
    : AfterArrival(ring.places[static_cast<std::size_t>(rank)]->at.progress,
                   ring.places[static_cast<std::size_t>(rank)]->from->half),
      ring_(ring),
      rank_(rank),
      partition_(partition) {}

void Hop::go_on() {
  ring_.hop(rank_, partition_);
}

void Hop::failed(const Error& error) noexcept {
  ring_.places[static_cast<std::size_t>(rank_)]->failures[static_cast<std::size_t>(partition_)] = error.sentence();
}

TEST(Ring, each_partition_goes_round_by_itself) {
  Ring ring;
  for (int epoch = 0; epoch < 5; ++epoch) {
    ring.start(epoch);
    ring.begin(3);
    for (int n = 0; n < 4; ++n) ring.poll();
    EXPECT_EQ(ring.sums, epoch * continued_partitions + 1) << "the others were not marked";
    for (const std::int32_t p : {0, 4, 1, 2}) ring.begin(p);
    for (int n = 0; n < 4; ++n) ring.poll();
    EXPECT_EQ(ring.sums, (epoch + 1) * continued_partitions);
    EXPECT_EQ(ring.right_sums, ring.sums);
    for (const auto& place : ring.places) {
      EXPECT_EQ(place->left->times, epoch + 1) << "all has left";
      EXPECT_FALSE(place->at.progress.wanted());
    }
  }
}

TEST(Ring, goes_round_on_the_progress_threads_alone) {
  Ring ring;
  for (auto& place : ring.places) place->at.progress.start_thread();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int epoch = 0; epoch < 30; ++epoch) {
    ring.start(epoch);
    std::array<std::thread, 2> marking;
    for (int w = 0; w < 2; ++w) {
      marking[static_cast<std::size_t>(w)] = std::thread([&, w] {
        for (std::int32_t p = w; p < continued_partitions; p += 2) ring.begin(p);
      });
    }
    for (std::thread& thread : marking) thread.join();
    const auto is_over = [&] {
      bool over = ring.sums == (epoch + 1) * continued_partitions;
      for (const auto& place : ring.places) over &= place->left->times == epoch + 1;
      return over;
    };
    while (!is_over() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    ASSERT_TRUE(is_over());
    ASSERT_EQ(ring.right_sums, ring.sums);
  }
}

TEST(Ring, a_put_that_fails_in_the_middle_reaches_every_owner_behind_it) {
  Ring ring;
  ring.start(0);
  ring.begin(0);
  for (int n = 0; n < 4; ++n) ring.poll();
  ring.places[1]->at.first.put_throws = true;
  ring.begin(1);
  for (int n = 0; n < 4; ++n) ring.poll();
  EXPECT_EQ(ring.sums, 1);
  EXPECT_EQ(ring.places[1]->failures[1], "the fake link cannot put") << "its own owner hears what go_on() threw";
  EXPECT_TRUE(ring.places[1]->to->half.failed());
  ring.deliver_all();
  for (int n = 0; n < 4; ++n) ring.poll();
  for (const std::int32_t p : {1, 2, 3, 4}) {
    const std::string& why = ring.places[2]->failures[static_cast<std::size_t>(p)];
    EXPECT_NE(why.find("the sender, rank 1, could not send: the fake link cannot put"), std::string::npos) << why;
  }
  EXPECT_TRUE(ring.places[2]->failures[0].empty()) << "that one had come";
  EXPECT_FALSE(ring.places[2]->hops[1]->armed());
  EXPECT_TRUE(ring.places[0]->failures[1].empty()) << "rank 2 has not failed its own transfer";
}

TEST(Ring, what_was_cancelled_goes_no_further_and_the_rest_does) {
  Ring ring;
  ring.start(0);
  ring.places[2]->hops[1]->cancel();
  for (std::int32_t p = 0; p < continued_partitions; ++p) ring.begin(p);
  for (int n = 0; n < 4; ++n) ring.poll();
  EXPECT_EQ(ring.sums, continued_partitions - 1);
  EXPECT_TRUE(ring.places[2]->from->half.arrived({1, 2}));
  EXPECT_EQ(ring.places[2]->to->half.put_count(), continued_partitions - 1);
  ring.places[2]->hops[1]->begin();
  for (int n = 0; n < 4; ++n) ring.poll();
  EXPECT_EQ(ring.right_sums, continued_partitions);
}

}  // namespace
}  // namespace partita::test
