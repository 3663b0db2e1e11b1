// A connection of link ucx that goes away in the middle of an epoch: the other side names the rank, and may free all.
#include <gtest/gtest.h>

#include <memory>

#include "contract/job_links.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

const Shape lost_shape{4, 4, 4, 4'000'000};

/// Calls `step` until it throws, and returns the sentence.
template <class Step>
std::string sentence_of_failure(link::Link& link, Step step) {
  std::string sentence;
  until(link, "the lost rank is noticed", [&] {
    try {
      step();
    } catch (const Error& error) {
      sentence = error.sentence();
    }
    return !sentence.empty();
  });
  return sentence;
}

/// Both sides of one matched request in an open epoch whose first transport partition has arrived.
class UcxLostPeer : public testing::Test {
 protected:
  void TearDown() override { harness_barrier(); }

  bool begin(int from) {
    links_ = std::make_unique<JobLinks>();
    pair_ = std::make_unique<Pair>(*links_, "ucx", lost_shape, MemoryKind::plain, from, 1 - from);
    if (pair_->refusal()) return false;
    if (pair_->sends()) {
      pair_->sender->start(1);
      pair_->put(1, {0});
    } else {
      pair_->receiver->open(1);
      pair_->expect_arrival(0, 1);
    }
    if (pair_->sends()) until(pair_->link(), "the first put has ended", [&] { return pair_->sender->finished(); });
    harness_barrier();
    return true;
  }

  /// Closes the connections as the end of the process does; the buffer goes last, since puts may still come in.
  void vanish() {
    pair_->sender.reset();
    pair_->receiver.reset();
    links_.reset();
    pair_.reset();
  }

  std::unique_ptr<JobLinks> links_;
  std::unique_ptr<Pair> pair_;
};

TEST_F(UcxLostPeer, a_sender_names_the_receiver_that_went_away) {
  if (!begin(0)) GTEST_SKIP() << *pair_->refusal();
  if (rank() == 1) vanish();
  harness_barrier();
  if (rank() == 1) return;
  for (const std::int32_t t : {1, 2, 3}) pair_->sender->put({t, t + 1}, 1);
  const std::string sentence = sentence_of_failure(pair_->link(), [&] { EXPECT_FALSE(pair_->sender->finished()); });
  EXPECT_NE(sentence.find("rank 1"), std::string::npos) << sentence;
  vanish();
}

TEST_F(UcxLostPeer, a_receiver_names_the_sender_that_went_away) {
  if (!begin(1)) GTEST_SKIP() << *pair_->refusal();
  if (rank() == 1) vanish();
  harness_barrier();
  if (rank() == 1) return;
  const std::string sentence =
      sentence_of_failure(pair_->link(), [&] { EXPECT_FALSE(pair_->receiver->arrived(3, 1)); });
  EXPECT_NE(sentence.find("rank 1"), std::string::npos) << sentence;
  vanish();
}

}  // namespace
}  // namespace partita::test
