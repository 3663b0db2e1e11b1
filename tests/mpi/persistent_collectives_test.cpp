// Persistent collectives without partitions beside the MPI's own blocking ones of the same arguments; wrong arguments,
// wrong use, and ranks that have made different calls.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "persistent_collective_cases.hpp"
#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

// clang-format off
#define COLLECTIVE(NAME, SHAPE, ...) PERSISTENT_COLLECTIVE(Partita_Request, NAME, Partita_##NAME##_init, SHAPE, __VA_ARGS__),
const std::vector<Collective<Partita_Request>> collectives = {
#include "persistent_collective_cases.inc"
};
#undef COLLECTIVE
// clang-format on

/// Waits in one way or the other.
void complete(Partita_Request& request, int epoch) {
  int flag = 0;
  while (epoch % 2 == 0 && flag == 0) ASSERT_OK(Partita_Test(&request, &flag, MPI_STATUS_IGNORE));
  ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
}

/// Epochs of one request with other data in each, one behind the other, beside the MPI's own. Rank `late` begins late:
/// the others go ahead as far as its data allow.
void expect_like_the_mpi(const Made<Partita_Request>& made, InPlace in_place, int root, int late) {
  const auto [sends_in_place, receives_in_place] = Places(in_place, root);
  const std::vector<Epoch> epochs = reference_epochs(made, sends_in_place, receives_in_place);
  std::vector<int> sent = epochs[0].sent, received = epochs[0].before;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(made.init(sends_in_place ? MPI_IN_PLACE : sent.data(), receives_in_place ? MPI_IN_PLACE : received.data(),
                      &request));
  harness_barrier();
  if (rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (std::size_t number = 0; number < epochs.size(); ++number) {
    std::ranges::copy(epochs[number].sent, sent.begin());
    std::ranges::copy(epochs[number].before, received.begin());
    ASSERT_OK(Partita_Start(&request));
    complete(request, static_cast<int>(number));
    const auto defined = made.result >= 0 ? made.result : static_cast<int>(received.size());
    const std::vector<int>& expected = epochs[number].expected;
    ASSERT_EQ(std::vector<int>(expected.begin(), expected.begin() + defined),
              std::vector<int>(received.begin(), received.begin() + defined))
        << "epoch " << number << ", root " << root << ", rank " << late << " is late";
  }
  ASSERT_OK(Partita_Request_free(&request));
}

class PersistentCollectives : public testing::TestWithParam<Collective<Partita_Request>> {};

TEST_P(PersistentCollectives, give_what_the_mpis_own_give) {
  const RingOfNeighbours ring;
  ASSERT_OK(Partita_Comm_register(ring.comm()));
  const auto make = [&](int n, int root) { return GetParam().make(Terms{.n = n, .root = root, .ring = ring.comm()}); };
  const int last = ranks() - 1;
  expect_like_the_mpi(make(500, last), InPlace::none, last, 0);
  expect_like_the_mpi(make(1, 0), InPlace::none, 0, 0);
  for (const int root : {0, last}) {
    if (const Made<Partita_Request> small = make(1, root); small.in_place != InPlace::none) {
      expect_like_the_mpi(small, small.in_place, root, last);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PersistentCollectives, testing::ValuesIn(collectives),
                         [](const auto& each) { return std::string(each.param.name); });

class PersistentCollective : public testing::Test {
 protected:
  int allreduce(MPI_Count count = 4) {
    return Partita_Allreduce_init(in_.data(), out_.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &request_);
  }
  int partitioned_allreduce() {
    return Partita_Pallreduce_init(in_.data(), out_.data(), 1, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request_);
  }
  /// One epoch, of which every rank has heard the outcome before one frees its request. `marks`: it is partitioned.
  int outcome(bool marks = false) {
    int code = Partita_Start(&request_);
    if (code == MPI_SUCCESS && marks) code = Partita_Pready(0, request_);
    if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    harness_barrier();
    EXPECT_OK(Partita_Request_free(&request_));
    return code;
  }
  void expect_later_ones_right() {
    ASSERT_OK(allreduce());
    ASSERT_OK(outcome());
    EXPECT_EQ(std::vector<int>(4, ranks()), out_);
    out_.assign(4, -1);
    ASSERT_OK(partitioned_allreduce());
    ASSERT_OK(Partita_Start(&request_));
    ASSERT_OK(Partita_Pbuf_prepare(request_));
    ASSERT_OK(Partita_Pready(0, request_));
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(4, ranks()), out_);
    ASSERT_OK(Partita_Request_free(&request_));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> in_ = std::vector<int>(4, 1);
  std::vector<int> out_ = std::vector<int>(4, -1);
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(PersistentCollective, barrier_ends_on_no_rank_before_all_have_started) {
  ASSERT_OK(Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  for (int late = 0; late < ranks(); ++late) {
    if (rank() != late) {
      ASSERT_OK(Partita_Start(&request_));
    }
    harness_barrier();  // all others have started
    if (rank() != late) {
      for (int look = 0; look < 50; ++look) {
        int flag = 0;
        ASSERT_OK(Partita_Test(&request_, &flag, MPI_STATUS_IGNORE));
        ASSERT_EQ(0, flag) << "rank " << late << " has not started";
      }
    }
    harness_barrier();
    if (rank() == late) {
      ASSERT_OK(Partita_Start(&request_));
    }
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  }
  ASSERT_OK(Partita_Request_free(&request_));
}

TEST_F(PersistentCollective, init_refuses_wrong_arguments) {
  const auto bcast = [&](int count, int root) {
    return Partita_Bcast_init(in_.data(), count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  };
  EXPECT_ERROR(bcast(4, ranks()), MPI_ERR_ROOT, "Bcast_init", "root is " + std::to_string(ranks()));
  EXPECT_ERROR(bcast(4, -1), MPI_ERR_ROOT, "Bcast_init", "root is -1");
  EXPECT_ERROR(bcast(-2, 0), MPI_ERR_COUNT, "Bcast_init", "-2");
  EXPECT_ERROR(Partita_Allreduce_init(in_.data(), out_.data(), 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD, MPI_INFO_NULL,
                                      &request_),
               MPI_ERR_OP, "Allreduce_init", "MPI_BAND");
  EXPECT_ERROR(
      Partita_Scan_init(in_.data(), MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
      MPI_ERR_BUFFER, "Scan_init", "recvbuf");
  EXPECT_ERROR(Partita_Barrier_init(MPI_COMM_NULL, MPI_INFO_NULL, &request_), MPI_ERR_COMM, "Barrier_init",
               "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, nullptr), MPI_ERR_ARG, "Barrier_init", "request");
  EXPECT_ERROR(Partita_Neighbor_allgather_init(in_.data(), 1, MPI_INT, out_.data(), 1, MPI_INT, MPI_COMM_WORLD,
                                               MPI_INFO_NULL, &request_),
               MPI_ERR_TOPOLOGY, "Neighbor_allgather_init", "topology");
  EXPECT_EQ(PARTITA_REQUEST_NULL, request_);
}

TEST_F(PersistentCollective, has_no_partitions) {
  ASSERT_OK(allreduce());
  for (const bool is_active : {false, true}) {
    if (is_active) {
      ASSERT_OK(Partita_Start(&request_));
    }
    int flag = 0;
    Partita_Prequest prequest{};
    EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_REQUEST, "Pready", "no partitions (persistent_allreduce)");
    EXPECT_ERROR(Partita_Pready_range(0, 0, request_), MPI_ERR_REQUEST, "no partitions", "partitioned request");
    EXPECT_ERROR(Partita_Parrived(request_, 0, &flag), MPI_ERR_REQUEST, "Parrived", "no partitions");
    EXPECT_ERROR(Partita_Prequest_create(&prequest, request_), MPI_ERR_REQUEST, "Prequest_create", "kernels");
  }
  EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST, "active already", "Persistent allreduce");
  ASSERT_OK(Partita_Pbuf_prepare(request_));  // as of ordinary messages: matched
  ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  EXPECT_EQ(std::vector<int>(4, ranks()), out_);
  ASSERT_OK(Partita_Request_free(&request_));
}

TEST_F(PersistentCollective, tells_what_it_is) {
  ASSERT_OK(allreduce());
  MPI_Info info = MPI_INFO_NULL;
  ASSERT_OK(Partita_Request_get_info(request_, &info));
  char value[MPI_MAX_INFO_VAL] = {};
  int flag = 0;
  MPI_Info_get(info, "partita_kind", MPI_MAX_INFO_VAL - 1, value, &flag);
  EXPECT_STREQ("persistent_allreduce", value);
  MPI_Info_free(&info);
  ASSERT_OK(Partita_Match(&request_));
  ASSERT_OK(Partita_Is_matched(request_, &flag));
  EXPECT_EQ(1, flag);
  ASSERT_OK(Partita_Request_free(&request_));
}

/// As many bytes, and as many partitions: only what they are differs.
TEST_F(PersistentCollective, meets_no_partitioned_one) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  for (const int odd_one_out : {0, ranks() - 1}) {
    const bool marks = rank() == odd_one_out;
    ASSERT_OK(marks ? partitioned_allreduce() : allreduce());
    EXPECT_ERROR(outcome(marks), MPI_ERR_REQUEST, "a partitioned allreduce", "a persistent allreduce", "all ranks");
    expect_later_ones_right();
  }
}

/// The data of some pairs would never meet: both only send, or both only receive. Where there are more ranks than two,
/// some may be through before they hear.
TEST_F(PersistentCollective, meets_no_other_one) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  using Init = std::function<int()>;
  const Init allreduce_init = [&] { return allreduce(); };
  const Init barrier_init = [&] { return Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request_); };
  const Init bcast_init = [&] {
    return Partita_Bcast_init(in_.data(), 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  };
  const Init reduce_init = [&] {
    return Partita_Reduce_init(in_.data(), out_.data(), 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request_);
  };
  const struct {
    const Init& first;  ///< of rank 0
    const char* its_name;
    const Init& other;
    const char* other_name;
  } pairs[] = {{allreduce_init, "a persistent allreduce", barrier_init, "a persistent barrier"},
               {barrier_init, "a persistent barrier", bcast_init, "a persistent bcast"},
               {bcast_init, "a persistent bcast", reduce_init, "a persistent reduce"},
               {reduce_init, "a persistent reduce", bcast_init, "a persistent bcast"}};
  for (const auto& [first, its_name, other, other_name] : pairs) {
    ASSERT_OK(rank() == 0 ? first() : other());
    const int code = outcome();
    if (code != MPI_SUCCESS || rank() == 0 || ranks() == 2) {
      EXPECT_ERROR(code, MPI_ERR_REQUEST, its_name, other_name, "the same on all ranks");
    }
    in_.assign(4, 1);
    expect_later_ones_right();
  }
}

/// The ranks that share data with rank 0 find in the match that its sizes differ, and start nothing. Rank 3 shares none
/// with it, and has started.
TEST_F(PersistentCollective, ranks_that_have_started_hear_of_a_match_that_failed) {
  if (ranks() != 4) GTEST_SKIP() << "of four ranks, one shares no data with rank 0";
  for (const bool nonblocking : {false, true}) {
    ASSERT_OK(allreduce(rank() == 0 ? 3 : 4));
    int code = MPI_SUCCESS;
    Partita_Request matching = PARTITA_REQUEST_NULL;
    if (rank() == 3) {
      ASSERT_OK(Partita_Start(&request_));
    }
    harness_barrier();
    if (rank() == 3) {
      code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    } else if (nonblocking) {
      ASSERT_OK(Partita_Imatch(&request_, &matching));
      code = Partita_Wait(&matching, MPI_STATUS_IGNORE);
      ASSERT_OK(Partita_Request_free(&matching));
    } else {
      code = Partita_Match(&request_);
    }
    EXPECT_ERROR(code, MPI_ERR_TRUNCATE, "persistent allreduce: ", "12 bytes", "16 bytes");
    EXPECT_ERROR(Partita_Start(&request_), rank() == 3 ? MPI_ERR_REQUEST : MPI_ERR_TRUNCATE, "ersistent allreduce");
    harness_barrier();
    ASSERT_OK(Partita_Request_free(&request_));
    expect_later_ones_right();
  }
}

}  // namespace
}  // namespace partita::test
