// Transfers whose two sides divide the same bytes into partitions of unequal size.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/fake_pair.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

using Sizes = std::vector<std::int64_t>;

class UnevenTransfer : public FakePair {
 protected:
  void match(const Sizes& send_sizes, const Sizes& recv_sizes, std::int32_t transports) {
    HalfTerms sending = terms(Side::send, link::Partitioning(send_sizes));
    sending.shape.wished_transport_partitions = transports;
    HalfTerms receiving = terms(Side::recv, link::Partitioning(recv_sizes));
    receiving.shape.wished_transport_partitions = transports;
    from_ = send(sending);
    to_ = recv(receiving);
    deliver_all();
    expect_pair(from_, to_);
    begins_.assign(1, 0);
    std::partial_sum(recv_sizes.begin(), recv_sizes.end(), std::back_inserter(begins_));
  }
  void free_both() {
    free(sender, from_);
    free(receiver, to_);
    deliver_all();
    expect_nothing_left();
  }
  /// Completes all partitions in a random order, and looks at all of the receiver's behind each.
  void run_epoch(Random& random, int seed) {
    fill(from_->buffer, seed);
    std::fill(to_->buffer.begin(), to_->buffer.end(), std::byte{0xa5});
    from_->start();
    to_->start();
    std::vector<bool> carried(from_->buffer.size());
    for (const int s : random.permutation(from_->half.plan().send_partitions())) {
      from_->half.complete(s);
      const std::int32_t t = from_->half.plan().transport_of_send(s);
      if (to_->half.arrived({t, t + 1})) {
        const link::Range bytes = from_->half.plan().bytes(t);
        std::fill(carried.begin() + bytes.begin, carried.begin() + bytes.end, true);
      }
      for (std::int32_t p = 0; p < to_->half.plan().recv_partitions(); ++p) look_at(p, carried);
    }
    ASSERT_TRUE(from_->half.all_finished());
    ASSERT_TRUE(to_->half.all_arrived());
    for (std::int32_t p = 0; p < to_->half.plan().recv_partitions(); ++p) {
      ASSERT_TRUE(to_->half.arrived(to_->half.plan().transports_of_recv(p))) << "partition " << p;
    }
    from_->half.set_active(false);
    to_->half.set_active(false);
  }

 private:
  /// What has arrived lies there, and was put.
  void look_at(std::int32_t partition, const std::vector<bool>& carried) {
    if (!to_->half.arrived(to_->half.plan().transports_of_recv(partition))) return;
    const auto begin = begins_[static_cast<std::size_t>(partition)];
    const auto end = begins_[static_cast<std::size_t>(partition) + 1];
    EXPECT_TRUE(std::all_of(carried.begin() + begin, carried.begin() + end, [](bool put) { return put; }))
        << "partition " << partition << " arrived before it was put";
    EXPECT_TRUE(std::equal(to_->buffer.begin() + begin, to_->buffer.begin() + end, from_->buffer.begin() + begin))
        << "partition " << partition;
  }

  std::shared_ptr<SendParty> from_;
  std::shared_ptr<RecvParty> to_;
  Sizes begins_;  ///< of the receiver's partitions, and the end of the last one
};

TEST_F(UnevenTransfer, bytes_lie_there_when_a_partition_has_arrived) {
  Random random(20261203);
  for (int round = 0; round < 400; ++round) {
    const std::int32_t sends = random.integer(1, 10);
    const std::int64_t total_bytes = random.between(0, round % 3 == 0 ? 5 : 3000);
    const Sizes send_sizes = random_parts(random, sends, total_bytes);
    const Sizes recv_sizes = random_parts(random, random.integer(1, 10), total_bytes);
    match(send_sizes, recv_sizes, random.integer(1, sends));
    for (int epoch = 0; epoch < 3 && !HasFailure(); ++epoch) run_epoch(random, 10 * round + epoch);
    free_both();
    if (HasFailure()) return;
  }
}

TEST_F(UnevenTransfer, a_single_partition_meets_many) {
  Random random(20261204);
  for (const Sizes& many : {Sizes{0, 0, 600, 1, 0}, Sizes{600, 0, 1}, Sizes{0, 601}}) {
    match(many, {601}, static_cast<std::int32_t>(many.size()));
    run_epoch(random, 1);
    free_both();
    match({601}, many, 1);
    run_epoch(random, 2);
    free_both();
  }
}

TEST_F(UnevenTransfer, sums_that_differ_fail_both_sides) {
  const auto from = send(terms(Side::send, link::Partitioning(Sizes{5, 6, 7})));
  const auto to = recv(terms(Side::recv, link::Partitioning(Sizes{5, 6, 8})));
  deliver_all();
  EXPECT_NE(failure_of(to->half).find("sends 18 bytes in 3 partitions"), std::string::npos) << failure_of(to->half);
  EXPECT_EQ(failure_of(from->half), failure_of(to->half));
}

}  // namespace
}  // namespace partita::test
