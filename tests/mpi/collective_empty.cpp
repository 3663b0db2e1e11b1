// Partitioned collectives in which a block is empty on one side only: both ranks hear of it, in this request, no rank
// waits for ever, and what the communicator is used for later is right. Where both sides say so nothing is wrong.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// Blocks have `count` integers in each of two partitions.
class EmptyBlocks : public testing::Test {
 protected:
  static constexpr int partitions = 2;
  static constexpr MPI_Count count = 3;
  static constexpr std::size_t block = partitions * count;

  void SetUp() override {
    if (ranks() < 2) GTEST_SKIP() << "blocks of other ranks take two ranks";
  }

  std::vector<MPI_Count> counts() const { return std::vector<MPI_Count>(size_, count); }
  bool is_last() const { return rank() == ranks() - 1; }
  /// The blocks that the first and the last rank exchange differ in what they say.
  bool is_meant() const { return rank() == 0 || is_last(); }

  int gatherv(MPI_Count sent, const std::vector<MPI_Count>& received) {
    return Partita_Pgatherv_init(in_.data(), partitions, sent, MPI_INT, out_.data(), received.data(), places_.data(),
                                 MPI_INT, 0, comm_, MPI_INFO_NULL, &request_);
  }
  int alltoallv(const std::vector<MPI_Count>& sent, const std::vector<MPI_Count>& received) {
    return Partita_Palltoallv_init(in_.data(), partitions, sent.data(), places_.data(), MPI_INT, out_.data(),
                                   received.data(), places_.data(), MPI_INT, comm_, MPI_INFO_NULL, &request_);
  }

  /// An epoch, after which every rank has its outcome before one frees its request.
  int outcome() {
    int code = Partita_Start(&request_);
    if (code == MPI_SUCCESS) code = Partita_Pready_range(0, partitions - 1, request_);
    if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    harness_barrier();
    EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
    return code;
  }
  /// The two that differ have an error that says how. Whoever hears of it from them may have one.
  void expect_mismatch(int code) {
    if (is_meant() || code != MPI_SUCCESS) {
      EXPECT_ERROR(code, MPI_ERR_TRUNCATE, " sends ", "0 bytes");
    }
  }
  /// Messages of all ranks to all on the same communicator reach whom they are for.
  void expect_later_ones_right() {
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = rank() * 100 + static_cast<int>(i / block);
    for (int again = 0; again < 2; ++again) {
      out_.assign(out_.size(), -1);
      ASSERT_EQ(MPI_SUCCESS, alltoallv(counts(), counts()));
      ASSERT_EQ(MPI_SUCCESS, outcome());
      for (std::size_t i = 0; i < out_.size(); ++i) {
        ASSERT_EQ(static_cast<int>(i / block) * 100 + rank(), out_[i]) << "element " << i;
      }
    }
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  MPI_Comm comm_ = MPI_COMM_WORLD;
  std::size_t size_ = static_cast<std::size_t>(ranks());
  std::vector<int> in_ = std::vector<int>(block * size_, 1);
  std::vector<int> out_ = std::vector<int>(block * size_, -1);
  std::vector<MPI_Aint> places_ = [this] {
    std::vector<MPI_Aint> places(size_);
    for (std::size_t i = 0; i < size_; ++i) places[i] = static_cast<MPI_Aint>(i * block);
    return places;
  }();
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(EmptyBlocks, that_the_root_of_a_gather_expects_are_an_error_of_both) {
  ASSERT_EQ(MPI_SUCCESS, gatherv(is_last() ? 0 : count, counts()));
  expect_mismatch(outcome());
  expect_later_ones_right();
}

TEST_F(EmptyBlocks, for_which_a_rank_has_data_are_an_error_of_both) {
  std::vector<MPI_Count> received = counts();
  received.back() = 0;
  ASSERT_EQ(MPI_SUCCESS, gatherv(count, received));
  expect_mismatch(outcome());
  expect_later_ones_right();
}

TEST_F(EmptyBlocks, of_an_exchange_that_the_receiver_expects_are_an_error_of_both) {
  std::vector<MPI_Count> sent = counts();
  if (is_last()) sent.front() = 0;
  ASSERT_EQ(MPI_SUCCESS, alltoallv(sent, counts()));
  expect_mismatch(outcome());
  expect_later_ones_right();
}

TEST_F(EmptyBlocks, of_a_neighbour_that_expects_data_are_an_error_of_both) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  ASSERT_EQ(MPI_SUCCESS, MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right,
                                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Comm_register(comm_));
  {
    const ErrorsReturn handler(comm_);
    const MPI_Count sent = is_last() ? 0 : count;
    ASSERT_EQ(MPI_SUCCESS,
              Partita_Pneighbor_alltoallv_init(in_.data(), partitions, &sent, places_.data(), MPI_INT, out_.data(),
                                               &count, places_.data(), MPI_INT, comm_, MPI_INFO_NULL, &request_));
    expect_mismatch(outcome());
    expect_later_ones_right();
  }
  MPI_Comm_free(&comm_);
}

TEST_F(EmptyBlocks, that_both_sides_know_keep_nobody_waiting) {
  // Nothing goes from the last rank to the first, and nothing at all to the last.
  std::vector<MPI_Count> sent = counts(), received = counts();
  sent.back() = 0;
  if (is_last()) sent.front() = 0;
  if (is_last()) received.assign(size_, 0);
  if (rank() == 0) received.back() = 0;
  ASSERT_EQ(MPI_SUCCESS, alltoallv(sent, received));
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pbuf_prepare(request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, partitions - 1, request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  }
  EXPECT_EQ(is_last() ? -1 : 1, out_[0]);
  EXPECT_EQ(rank() == 0 || is_last() ? -1 : 1, out_.back());
  ASSERT_EQ(MPI_SUCCESS, outcome());
  expect_later_ones_right();
}

/// A rank of which nobody wants anything may be through with its epochs, and its request, before another begins.
TEST_F(EmptyBlocks, let_a_rank_that_has_nothing_to_do_go_on_alone) {
  const std::vector<MPI_Count> none(size_, 0);
  ASSERT_EQ(MPI_SUCCESS, alltoallv(none, none));
  harness_barrier();
  if (!is_last()) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, partitions - 1, request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
    ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  }
  harness_barrier();
  if (is_last()) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, partitions - 1, request_));
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
    ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  }
}

}  // namespace
}  // namespace partita::test
