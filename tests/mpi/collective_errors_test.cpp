// Partitioned collectives: wrong arguments, wrong use, and what keeps them apart from everything else on a
// communicator.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

class CollectiveErrors : public testing::Test {
 protected:
  int allreduce(int partitions, MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm = MPI_COMM_WORLD) {
    return Partita_Pallreduce_init(in_.data(), out_.data(), partitions, count, datatype, op, comm, MPI_INFO_NULL,
                                   &request_);
  }
  int bcast(int root, MPI_Info info = MPI_INFO_NULL) {
    return Partita_Pbcast_init(in_.data(), 2, 3, MPI_INT, root, MPI_COMM_WORLD, info, &request_);
  }
  bool is_root() const { return rank() == 0; }
  /// One epoch with marks of all partitions up to `last`, after which every rank has its outcome before one frees its
  /// request: whoever needs nothing of the rank that differs hears of it from others.
  int outcome(int last) {
    int code = Partita_Start(&request_);
    if (code == MPI_SUCCESS) code = Partita_Pready_range(0, last, request_);
    if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    harness_barrier();
    EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
    return code;
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> in_ = std::vector<int>(64, 1);
  std::vector<int> out_ = std::vector<int>(64, -1);
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(CollectiveErrors, init_refuses_wrong_numbers) {
  EXPECT_ERROR(allreduce(0, 3, MPI_INT, MPI_SUM), MPI_ERR_ARG, "Pallreduce_init", "partitions", "0");
  EXPECT_ERROR(allreduce(2, -3, MPI_INT, MPI_SUM), MPI_ERR_COUNT, "count", "-3");
  EXPECT_ERROR(allreduce(2, (MPI_Count{1} << 60), MPI_DOUBLE, MPI_SUM), MPI_ERR_COUNT, "2^63");
  EXPECT_ERROR(bcast(-1), MPI_ERR_ROOT, "Pbcast_init", "root", "-1");
  EXPECT_ERROR(bcast(ranks()), MPI_ERR_ROOT, "root");
  EXPECT_EQ(PARTITA_REQUEST_NULL, request_);
}

TEST_F(CollectiveErrors, init_refuses_operations_that_do_not_go_with_the_datatype) {
  EXPECT_ERROR(allreduce(1, 1, MPI_DOUBLE, MPI_BAND), MPI_ERR_OP, "MPI_BAND", "integer");
  EXPECT_ERROR(allreduce(1, 1, MPI_INT, MPI_MAXLOC), MPI_ERR_OP, "MPI_MAXLOC", "index");
  EXPECT_ERROR(allreduce(1, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX), MPI_ERR_OP, "MPI_MAX");
  EXPECT_ERROR(allreduce(1, 1, MPI_FLOAT, MPI_LAND), MPI_ERR_OP, "MPI_LAND");
  EXPECT_ERROR(allreduce(1, 1, MPI_INT, MPI_REPLACE), MPI_ERR_OP, "one-sided");
  EXPECT_ERROR(allreduce(1, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP, "MPI_OP_NULL");
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  EXPECT_ERROR(allreduce(1, 1, pair, MPI_SUM), MPI_ERR_TYPE, "not committed");
  MPI_Type_commit(&pair);
  EXPECT_ERROR(allreduce(1, 1, pair, MPI_SUM), MPI_ERR_OP, "MPI_SUM");
  MPI_Type_free(&pair);
  EXPECT_ERROR(allreduce(1, 1, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
}

TEST_F(CollectiveErrors, init_refuses_buffers_and_places_that_are_none) {
  EXPECT_ERROR(
      Partita_Pallreduce_init(nullptr, out_.data(), 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
      MPI_ERR_BUFFER, "sendbuf", "null");
  EXPECT_ERROR(Partita_Pallreduce_init(in_.data(), MPI_IN_PLACE, 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                       &request_),
               MPI_ERR_BUFFER, "recvbuf", "MPI_IN_PLACE");
  EXPECT_ERROR(Partita_Pbcast_init(MPI_IN_PLACE, 1, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
               MPI_ERR_BUFFER, "buffer", "MPI_IN_PLACE");
  EXPECT_ERROR(
      Partita_Pallreduce_init(in_.data(), out_.data(), 1, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, nullptr),
      MPI_ERR_ARG, "request", "null");
  EXPECT_ERROR(Partita_Pallgatherv_init(in_.data(), 1, 1, MPI_INT, out_.data(), nullptr, nullptr, MPI_INT,
                                        MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
               MPI_ERR_ARG, "recvcounts", "null");
}

TEST_F(CollectiveErrors, init_refuses_communicators_that_will_not_do) {
  EXPECT_ERROR(allreduce(1, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Pneighbor_allgather_init(in_.data(), 1, 1, MPI_INT, out_.data(), 1, MPI_INT, MPI_COMM_WORLD,
                                                MPI_INFO_NULL, &request_),
               MPI_ERR_TOPOLOGY, "topology");
  if (ranks() < 2) GTEST_SKIP() << "an intercommunicator has two groups";
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  const bool first = rank() < ranks() / 2;
  MPI_Comm_split(MPI_COMM_WORLD, first ? 0 : 1, 0, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, first ? ranks() / 2 : 0, 1, &between);
  ASSERT_EQ(MPI_SUCCESS, Partita_Comm_register(between));
  {
    const ErrorsReturn handler(between);
    EXPECT_ERROR(allreduce(1, 1, MPI_INT, MPI_SUM, between), MPI_ERR_COMM, "intercommunicator");
  }
  MPI_Comm_free(&between);
  MPI_Comm_free(&own);
}

TEST_F(CollectiveErrors, init_refuses_unknown_algorithms_and_keys) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_algorithm", "bubble");
  EXPECT_ERROR(bcast(0, info), MPI_ERR_INFO_VALUE, "partita_algorithm", "bubble", "binomial");
  MPI_Info_delete(info, "partita_algorithm");
  MPI_Info_set(info, "partita_algoritm", "binomial");
  EXPECT_ERROR(bcast(0, info), MPI_ERR_INFO_KEY, "partita_algoritm", "partita_algorithm");
  MPI_Info_free(&info);
}

TEST_F(CollectiveErrors, only_ranks_with_data_mark_and_only_those_that_receive_await) {
  ASSERT_EQ(MPI_SUCCESS, bcast(0));
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
  int flag = 0;
  if (is_root()) {
    EXPECT_ERROR(Partita_Parrived(request_, 0, &flag), MPI_ERR_REQUEST, "Parrived", "bcast", "nothing arrives");
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 1, request_));
  } else {
    EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_REQUEST, "Pready", "bcast", "sends nothing");
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

TEST_F(CollectiveErrors, marks_are_checked) {
  ASSERT_EQ(MPI_SUCCESS, allreduce(3, 2, MPI_INT, MPI_SUM));
  EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_REQUEST, "inactive");
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
  EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST, "active already", "allreduce");
  EXPECT_ERROR(Partita_Pready(3, request_), MPI_ERR_ARG, "partition", "3", "0 to 2");
  EXPECT_ERROR(Partita_Pready(-1, request_), MPI_ERR_ARG, "partition", "-1");
  ASSERT_EQ(MPI_SUCCESS, Partita_Pready(1, request_));
  EXPECT_ERROR(Partita_Pready(1, request_), MPI_ERR_ARG, "partition 1", "marked");
  EXPECT_ERROR(Partita_Request_free(&request_), MPI_ERR_REQUEST, "active", "2 of 3 partitions not marked (0, 2)");
  ASSERT_EQ(MPI_SUCCESS, Partita_Pready(0, request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Pready(2, request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  EXPECT_EQ(ranks(), out_[0]);
  Partita_Prequest prequest{};
  EXPECT_ERROR(Partita_Prequest_create(&prequest, request_), MPI_ERR_BUFFER, "host memory", "one GPU");
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

/// A partition is through though another one is not even marked.
TEST_F(CollectiveErrors, a_partition_arrives_while_others_are_not_marked) {
  ASSERT_EQ(MPI_SUCCESS, allreduce(8, 1, MPI_INT, MPI_SUM));
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
    for (int partition = 7; partition >= 0; --partition) {
      out_[static_cast<std::size_t>(partition)] = -1;
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready(partition, request_));
      for (int flag = 0; flag == 0;) ASSERT_EQ(MPI_SUCCESS, Partita_Parrived(request_, partition, &flag));
      ASSERT_EQ(ranks(), out_[static_cast<std::size_t>(partition)]);
    }
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

/// Requests of collectives and of sends and receives on one communicator, in different orders on the ranks where that
/// is allowed.
TEST_F(CollectiveErrors, collectives_keep_apart_from_each_other_and_from_messages) {
  std::vector<int> sums(8, -1), greatest(8, -1), mine(8, rank() + 1), from_left(8, -1);
  Partita_Request sum = PARTITA_REQUEST_NULL, maximum = PARTITA_REQUEST_NULL;
  Partita_Request to = PARTITA_REQUEST_NULL, from = PARTITA_REQUEST_NULL;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const auto messages = [&] {
    ASSERT_EQ(MPI_SUCCESS,
              Partita_Psend_init(mine.data(), 2, 4, MPI_INT, right, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &to));
    ASSERT_EQ(MPI_SUCCESS,
              Partita_Precv_init(from_left.data(), 2, 4, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &from));
  };
  if (rank() % 2 == 0) messages();
  ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(mine.data(), sums.data(), 4, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                                 MPI_INFO_NULL, &sum));
  ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(mine.data(), greatest.data(), 4, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD,
                                                 MPI_INFO_NULL, &maximum));
  if (rank() % 2 != 0) messages();
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::array all = {sum, maximum, to, from};
    ASSERT_EQ(MPI_SUCCESS, Partita_Startall(4, all.data()));
    for (int p = 0; p < 4; ++p) {
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready(p, rank() % 2 == 0 ? sum : maximum));
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready(p, rank() % 2 == 0 ? maximum : sum));
    }
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 1, to));
    ASSERT_EQ(MPI_SUCCESS, Partita_Waitall(4, all.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(std::vector<int>(8, ranks() * (ranks() + 1) / 2), sums);
    EXPECT_EQ(std::vector<int>(8, ranks()), greatest);
    EXPECT_EQ(std::vector<int>(8, left + 1), from_left);
  }
  for (Partita_Request* request : {&sum, &maximum, &to, &from}) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(request));
  }
}

/// Different sizes on the ranks: an error on all of them whose transfers that breaks, and no hang.
TEST_F(CollectiveErrors, ranks_that_disagree_on_the_size_hear_of_it) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks disagree";
  ASSERT_EQ(MPI_SUCCESS, allreduce(2, is_root() ? 2 : 3, MPI_INT, MPI_SUM));
  EXPECT_ERROR(outcome(1), MPI_ERR_TRUNCATE, "partitioned allreduce: ", "16 bytes", "24 bytes");
}

TEST_F(CollectiveErrors, ranks_that_disagree_on_the_partitions_hear_of_it) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks disagree";
  ASSERT_EQ(MPI_SUCCESS, allreduce(is_root() ? 1 : 2, is_root() ? 4 : 2, MPI_INT, MPI_SUM));
  EXPECT_ERROR(outcome(is_root() ? 0 : 1), MPI_ERR_TRUNCATE, "partitioned allreduce: ", "partitions", "same number");
}

/// As many bytes, from a rank that only sends to ranks that only receive: these ask for more partitions than come.
TEST_F(CollectiveErrors, ranks_that_disagree_on_the_partitions_of_a_bcast_hear_of_it) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks disagree";
  const int partitions = is_root() ? 4 : 8;
  ASSERT_EQ(MPI_SUCCESS, Partita_Pbcast_init(in_.data(), partitions, 32 / partitions, MPI_INT, 0, MPI_COMM_WORLD,
                                             MPI_INFO_NULL, &request_));
  int code = Partita_Start(&request_);
  if (code == MPI_SUCCESS && is_root()) code = Partita_Pready_range(0, partitions - 1, request_);
  if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
  harness_barrier();
  EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  EXPECT_ERROR(code, MPI_ERR_TRUNCATE, "partitioned bcast: ", "rank 0 has 4", "has 8", "same number");
}

/// Both send each other as many bytes in as many partitions.
TEST_F(CollectiveErrors, ranks_that_make_different_collectives_hear_of_it) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks disagree";
  ASSERT_EQ(MPI_SUCCESS, is_root() ? allreduce(2, 3, MPI_INT, MPI_SUM)
                                   : Partita_Pallgather_init(in_.data(), 2, 3, MPI_INT, out_.data(), 3, MPI_INT,
                                                             MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  EXPECT_ERROR(outcome(1), MPI_ERR_REQUEST, "a partitioned allreduce", "a partitioned allgather",
               "the same on all ranks");
}

TEST_F(CollectiveErrors, what_a_rank_sends_to_itself_fits) {
  const std::vector<MPI_Count> sent(static_cast<std::size_t>(ranks()), 3), received(sent.size(), 2);
  std::vector<MPI_Aint> places(sent.size(), 0);
  EXPECT_ERROR(Partita_Palltoallv_init(in_.data(), 2, sent.data(), places.data(), MPI_INT, out_.data(), received.data(),
                                       places.data(), MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
               MPI_ERR_TRUNCATE, "slice", "sends to itself", "12 bytes", "8");
  EXPECT_EQ(PARTITA_REQUEST_NULL, request_);
}

/// MPI_BOTTOM, with addresses as displacements.
TEST_F(CollectiveErrors, displacements_may_be_addresses) {
  const auto size = static_cast<std::size_t>(ranks());
  std::vector<MPI_Aint> from(size), to(size);
  for (std::size_t i = 0; i < size; ++i) {
    MPI_Get_address(&in_[2 * i], &from[i]);
    MPI_Get_address(&out_[2 * i], &to[i]);
    in_[2 * i] = in_[2 * i + 1] = rank() * 10 + static_cast<int>(i);
  }
  const std::vector<MPI_Count> counts(size, 1);
  const std::vector<MPI_Datatype> types(size, MPI_INT);
  ASSERT_EQ(MPI_SUCCESS,
            Partita_Palltoallw_init(MPI_BOTTOM, 2, counts.data(), from.data(), types.data(), MPI_BOTTOM, counts.data(),
                                    to.data(), types.data(), MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 1, request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(static_cast<int>(i) * 10 + rank(), out_[2 * i]);
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

TEST_F(CollectiveErrors, nothing_arrives_at_the_first_rank_of_an_exscan) {
  ASSERT_EQ(MPI_SUCCESS, Partita_Pexscan_init(in_.data(), is_root() ? nullptr : out_.data(), 2, 2, MPI_INT, MPI_SUM,
                                              MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request_));
  ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 1, request_));
  int flag = 0;
  if (is_root()) {
    EXPECT_ERROR(Partita_Parrived(request_, 0, &flag), MPI_ERR_REQUEST, "exscan", "nothing arrives");
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request_, MPI_STATUS_IGNORE));
  if (!is_root()) {
    EXPECT_EQ(std::vector<int>(4, rank()), std::vector<int>(out_.begin(), out_.begin() + 4));
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
}

/// One that was made and is freed at once, on some ranks before the others have made theirs.
TEST_F(CollectiveErrors, requests_that_were_never_started_may_be_freed) {
  if (rank() % 2 != 0) harness_barrier();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(MPI_SUCCESS, allreduce(2, 2, MPI_INT, MPI_SUM));
    ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request_));
  }
  if (rank() % 2 == 0) harness_barrier();
}

}  // namespace
}  // namespace partita::test
