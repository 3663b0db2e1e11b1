// Pbuf_prepare on partitioned collectives: it waits until all members have started the epoch.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// One clock for all ranks of a node.
std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

class CollectivePrepare : public testing::Test {
 protected:
  /// Along 0 -> 1 -> 2 ...: most ranks send to one other rank, the last one to none.
  Partita_Request chain(std::vector<int>& data) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_algorithm", "chain");
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Pbcast_init(data.data(), 2, 2, MPI_INT, 0, MPI_COMM_WORLD, info, &made));
    MPI_Info_free(&info);
    return made;
  }
  static void finish(Partita_Request& request) {
    if (rank() == 0) {
      ASSERT_OK(Partita_Pready_range(0, 1, request));
    }
    ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> data_ = std::vector<int>(4, rank());
};

/// Each rank is late in some epochs. It need not call Pbuf_prepare itself.
TEST_F(CollectivePrepare, waits_for_the_start_of_every_rank) {
  Partita_Request request = chain(data_);
  EXPECT_ERROR(Partita_Pbuf_prepare(request), MPI_ERR_REQUEST, "inactive");
  for (int epoch = 0; epoch < 3 * ranks(); ++epoch) {
    const int late = epoch % ranks();
    harness_barrier();
    if (rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::int64_t started_ns = now_ns();
    ASSERT_OK(Partita_Start(&request));
    std::int64_t prepared_ns = INT64_MAX;
    if (rank() != late || epoch < ranks()) {
      step("Pbuf_prepare");
      ASSERT_OK(Partita_Pbuf_prepare(request));
      prepared_ns = now_ns();
    }
    finish(request);
    std::int64_t last_start_ns = 0;
    PMPI_Allreduce(&started_ns, &last_start_ns, 1, MPI_INT64_T, MPI_MAX, harness_comm());
    EXPECT_GE(prepared_ns, last_start_ns) << "rank " << late << " had not started epoch " << epoch;
  }
  ASSERT_OK(Partita_Request_free(&request));
}

/// An epoch that nobody prepares is no less of one for those that come after it.
TEST_F(CollectivePrepare, is_optional_in_every_epoch) {
  Partita_Request request = chain(data_);
  for (int epoch = 0; epoch < 200; ++epoch) {
    ASSERT_OK(Partita_Start(&request));
    if (epoch % 7 == 3 || (epoch % 7 == 5 && rank() % 2 == 0)) {
      ASSERT_OK(Partita_Pbuf_prepare(request));
    }
    if (rank() == 0) data_.assign(data_.size(), epoch);
    finish(request);
    ASSERT_EQ(std::vector<int>(4, epoch), data_);
  }
  ASSERT_OK(Partita_Request_free(&request));
}

TEST_F(CollectivePrepare, may_be_called_in_any_order_of_requests) {
  std::vector<int> other = data_;
  std::array requests = {chain(data_), chain(other)};
  for (int epoch = 0; epoch < 20; ++epoch) {
    ASSERT_OK(Partita_Startall(2, requests.data()));
    const bool swapped = (rank() + epoch) % 2 == 0;
    ASSERT_OK(Partita_Pbuf_prepare(requests[swapped ? 1 : 0]));
    ASSERT_OK(Partita_Pbuf_prepare(requests[swapped ? 0 : 1]));
    for (Partita_Request& each : requests) finish(each);
  }
  for (Partita_Request& each : requests) ASSERT_OK(Partita_Request_free(&each));
}

/// A program whose ranks prepare all their epochs may free as it likes.
TEST_F(CollectivePrepare, holds_up_no_free) {
  for (int round = 0; round < 20; ++round) {
    Partita_Request request = chain(data_);
    ASSERT_OK(Partita_Start(&request));
    if (round % 2 == 0) {
      ASSERT_OK(Partita_Pbuf_prepare(request));
    }
    finish(request);
    ASSERT_OK(Partita_Request_free(&request));
  }
}

/// A rank of which nobody wants data may have waited, and freed its request, before others start: they wait for each
/// other by way of it. Rank 2 hears from rank 0 of the last one, which begins as late.
TEST_F(CollectivePrepare, knows_of_the_starts_of_ranks_that_have_freed_their_request) {
  const std::vector<MPI_Count> none(static_cast<std::size_t>(ranks()), 0);
  const std::vector<MPI_Aint> places(none.size(), 0);
  for (int round = 0; round < 3; ++round) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_OK(Partita_Palltoallv_init(data_.data(), 1, none.data(), places.data(), MPI_INT, data_.data(), none.data(),
                                      places.data(), MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    const bool is_late = rank() >= 2;
    if (is_late) harness_barrier();
    ASSERT_OK(Partita_Start(&request));
    if (is_late) {
      ASSERT_OK(Partita_Pbuf_prepare(request));
    }
    ASSERT_OK(Partita_Pready(0, request));
    ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_OK(Partita_Request_free(&request));
    if (!is_late) harness_barrier();
  }
}

}  // namespace
}  // namespace partita::test
