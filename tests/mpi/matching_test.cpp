// Matching: by communicator, rank, tag and order of init, whatever happens in between.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

template <class Face>
class Matching : public testing::Test {
 protected:
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }

  std::vector<Sending<Face>> sends_;
  std::vector<Receiving<Face>> recvs_;

  void init_pairs(int count, std::int64_t partition_bytes, const std::vector<int>& tags) {
    sends_.resize(static_cast<std::size_t>(count));
    recvs_.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < sends_.size(); ++i) sends_[i].init(2, partition_bytes, right(), tags[i % tags.size()]);
    for (std::size_t i = 0; i < recvs_.size(); ++i) recvs_[i].init(2, partition_bytes, left(), tags[i % tags.size()]);
  }
  static std::uint64_t key_of(std::size_t pair, int epoch) {
    return pair * 100 + static_cast<std::uint64_t>(epoch) + 1;
  }

  /// One epoch of all pairs, each step in a random order of its own.
  void run_epoch(Random& random, int epoch) {
    const int count = static_cast<int>(sends_.size());
    step("starts of epoch " + std::to_string(epoch));
    for (const int i : random.permutation(count)) sends_[static_cast<std::size_t>(i)].start();
    for (const int i : random.permutation(count)) recvs_[static_cast<std::size_t>(i)].start();
    RETURN_IF_FAILED();
    for (const int i : random.permutation(count)) {
      sends_[static_cast<std::size_t>(i)].mark_all(key_of(static_cast<std::size_t>(i), epoch));
    }
    step("waits of epoch " + std::to_string(epoch));
    for (const int i : random.permutation(count)) {
      SCOPED_TRACE("pair " + std::to_string(i) + ", epoch " + std::to_string(epoch));
      recvs_[static_cast<std::size_t>(i)].wait_for(key_of(static_cast<std::size_t>(i), epoch));
      RETURN_IF_FAILED();
    }
    for (const int i : random.permutation(count)) sends_[static_cast<std::size_t>(i)].wait();
  }
  void free_pairs(Random& random) {
    for (const int i : random.permutation(static_cast<int>(sends_.size()))) sends_[static_cast<std::size_t>(i)].free();
    for (const int i : random.permutation(static_cast<int>(recvs_.size()))) recvs_[static_cast<std::size_t>(i)].free();
    sends_.clear();
    recvs_.clear();
  }
};

TYPED_TEST_SUITE(Matching, Faces, FaceNames);

TYPED_TEST(Matching, requests_of_one_tag_match_in_order_of_init_whatever_the_order_of_start) {
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  for (const std::int64_t partition_bytes : {8, 1000, 64 * 1024}) {
    this->init_pairs(24, partition_bytes, {5});
    RETURN_IF_FAILED();
    for (int epoch = 0; epoch < 4; ++epoch) this->run_epoch(random, epoch);
    RETURN_IF_FAILED();
    this->free_pairs(random);
  }
}

TYPED_TEST(Matching, many_requests_of_several_tags_are_alive_at_once) {
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  this->init_pairs(300, 48, {0, 1, 2, 30000, 7});
  RETURN_IF_FAILED();
  for (int epoch = 0; epoch < 3; ++epoch) this->run_epoch(random, epoch);
  RETURN_IF_FAILED();
  this->free_pairs(random);
}

TYPED_TEST(Matching, requests_made_late_on_one_side_match) {
  for (const bool send_late : {true, false}) {
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    if (!send_late) send.init(2, 100, this->right(), 5);
    if (send_late) recv.init(2, 100, this->left(), 5);
    harness_barrier();
    if (send_late) send.init(2, 100, this->right(), 5);
    if (!send_late) recv.init(2, 100, this->left(), 5);
    recv.start();
    send.start();
    send.mark_all(3);
    recv.wait_for(3);
    send.wait();
    RETURN_IF_FAILED();
    send.free();
    recv.free();
  }
}

TYPED_TEST(Matching, a_send_may_be_started_and_marked_before_its_receive_is_made) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(3, 20000, this->right(), 5);
  send.start();
  send.mark_all(11);
  harness_barrier();
  recv.init(3, 20000, this->left(), 5);
  recv.start();
  recv.wait_for(11);
  send.wait();
  RETURN_IF_FAILED();
  send.free();
  recv.free();
}

TYPED_TEST(Matching, a_request_freed_unmatched_keeps_its_place_in_the_order) {
  for (int freed_first = 0; freed_first < 4; ++freed_first) {
    SCOPED_TRACE("way " + std::to_string(freed_first));
    Sending<TypeParam> unused_send, send;
    Receiving<TypeParam> unused_recv, recv;
    const bool send_freed_at_once = (freed_first & 1) != 0;
    const bool recv_freed_at_once = (freed_first & 2) != 0;
    unused_send.init(2, 64, this->right(), 5);
    if (send_freed_at_once) unused_send.free();
    if (freed_first == 3) harness_barrier();
    unused_recv.init(2, 64, this->left(), 5);
    if (recv_freed_at_once) unused_recv.free();
    send.init(2, 64, this->right(), 5);
    recv.init(2, 64, this->left(), 5);
    RETURN_IF_FAILED();
    send.start();
    recv.start();
    send.mark_all(21);
    recv.wait_for(21);
    send.wait();
    RETURN_IF_FAILED();
    if (!send_freed_at_once) unused_send.free();
    if (!recv_freed_at_once) unused_recv.free();
    send.free();
    recv.free();
  }
}

TYPED_TEST(Matching, requests_are_freed_and_made_again_thousands_of_times) {
  const auto rounds = environment_number("PARTITEST_ROUNDS", 2000);
  for (int round = 0; round < rounds; ++round) {
    if (round % 100 == 0) step("round " + std::to_string(round));
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    send.init(2, 24, this->right(), round % 3);
    recv.init(2, 24, this->left(), round % 3);
    if (round % 4 == 0) {
      send.start();
      recv.start();
      send.mark_all(static_cast<std::uint64_t>(round));
      recv.wait_for(static_cast<std::uint64_t>(round));
      send.wait();
    }
    send.free();
    recv.free();
    RETURN_IF_FAILED();
  }
}

TYPED_TEST(Matching, a_process_talks_to_itself) {
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
    int self = -1;
    MPI_Comm_rank(comm, &self);
    for (const std::int64_t partition_bytes : {8, 100 * 1000}) {
      this->sends_.resize(5);
      this->recvs_.resize(5);
      for (auto& send : this->sends_) send.init(4, partition_bytes, self, 2, comm);
      for (auto& recv : this->recvs_) recv.init(2, 2 * partition_bytes, self, 2, comm);
      RETURN_IF_FAILED();
      for (int epoch = 0; epoch < 3; ++epoch) this->run_epoch(random, epoch);
      RETURN_IF_FAILED();
      this->free_pairs(random);
    }
  }
}

TYPED_TEST(Matching, all_pairs_of_ranks_exchange_at_once) {
  std::vector<Sending<TypeParam>> sends(static_cast<std::size_t>(ranks()));
  std::vector<Receiving<TypeParam>> recvs(sends.size());
  for (int peer = 0; peer < ranks(); ++peer) {
    sends[static_cast<std::size_t>(peer)].init(3, 400, peer, 8);
    recvs[static_cast<std::size_t>(peer)].init(1, 1200, peer, 8);
  }
  RETURN_IF_FAILED();
  for (int epoch = 1; epoch <= 5; ++epoch) {
    const auto key = [&](int from, int to) { return static_cast<std::uint64_t>(epoch * 10000 + from * 100 + to); };
    for (auto& recv : recvs) recv.start();
    for (auto& send : sends) send.start();
    for (int peer = 0; peer < ranks(); ++peer) sends[static_cast<std::size_t>(peer)].mark_all(key(rank(), peer));
    for (int peer = 0; peer < ranks(); ++peer) recvs[static_cast<std::size_t>(peer)].wait_for(key(peer, rank()));
    for (auto& send : sends) send.wait();
    RETURN_IF_FAILED();
  }
  for (auto& send : sends) send.free();
  for (auto& recv : recvs) recv.free();
}

TYPED_TEST(Matching, a_users_wildcard_receive_and_probe_never_see_a_message_of_ours) {
  char word[64] = "untouched";
  MPI_Request wildcard = MPI_REQUEST_NULL;
  MPI_Irecv(word, sizeof word, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &wildcard);
  for (const std::int64_t partition_bytes : {8, 100 * 1000}) {
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    send.init(2, partition_bytes, this->right(), 5);
    recv.init(2, partition_bytes, this->left(), 5);
    for (std::uint64_t key = 1; key <= 3; ++key) {
      recv.start();
      send.start();
      send.mark_all(key);
      recv.wait_for(key);
      send.wait();
      int found = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
      EXPECT_EQ(found, 0) << "a probe saw a message that is not the user's";
      RETURN_IF_FAILED();
    }
    send.free();
    recv.free();
  }
  int done = 0;
  MPI_Test(&wildcard, &done, MPI_STATUS_IGNORE);
  EXPECT_EQ(done, 0) << "a wildcard receive took a message that is not the user's";
  EXPECT_STREQ(word, "untouched");
  harness_barrier();
  MPI_Send("from the user", 14, MPI_CHAR, this->right(), 77, MPI_COMM_WORLD);
  MPI_Status status;
  MPI_Wait(&wildcard, &status);
  EXPECT_EQ(status.MPI_TAG, 77);
  EXPECT_STREQ(word, "from the user");
}

}  // namespace
}  // namespace partita::test
