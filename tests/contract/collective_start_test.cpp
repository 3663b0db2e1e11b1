// A start of a collective that fails on one of its transfers, on the fake GPU over link mpi: every rank hears of it,
// and the buffer is the program's again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int sent_partitions = 2, sent_count = 4;

/// The MPI starts so many requests more.
std::atomic<int> starts_left{1'000'000};

/// Each rank has a block for each: rank r sends 10 r + epoch.
class CollectiveStart : public testing::Test {
 protected:
  struct Exchange {
    FakeGpuBuffer sent{mapped, bytes()};
    FakeGpuBuffer received{mapped, bytes()};
    Partita_Request request = PARTITA_REQUEST_NULL;
    int epoch = 0;

    Exchange() {
      EXPECT_OK(Partita_Palltoall_init(sent.data(), sent_partitions, sent_count, MPI_INT, received.data(), sent_count,
                                       MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    }
    ~Exchange() { EXPECT_OK(Partita_Request_free(&request)); }
    static std::size_t bytes() {
      return static_cast<std::size_t>(ranks() * sent_partitions * sent_count) * sizeof(int);
    }
    static int* ints(const FakeGpuBuffer& buffer) { return reinterpret_cast<int*>(buffer.data()); }

    int start() {
      ++epoch;
      std::fill_n(ints(sent), ranks() * sent_partitions * sent_count, 10 * rank() + epoch);
      return Partita_Start(&request);
    }
    void mark() { ASSERT_OK(Partita_Pready_range(0, sent_partitions - 1, request)); }
    int wait() { return Partita_Wait(&request, MPI_STATUS_IGNORE); }
    void expect_all() {
      for (int i = 0; i < ranks() * sent_partitions * sent_count; ++i) {
        EXPECT_EQ(ints(received)[i], 10 * (i / (sent_partitions * sent_count)) + epoch) << i;
      }
    }
    void run() {
      ASSERT_OK(start());
      mark();
      ASSERT_OK(Partita_Pbuf_prepare(request));
      ASSERT_OK(wait());
      expect_all();
    }
  };

  void SetUp() override {
    if (ranks() < 3) GTEST_SKIP() << "needs a rank with two receives";
  }
  /// The MPI's, one for each partition from another rank.
  int receives() const { return sent_partitions * (ranks() - 1); }

  ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// What the others have marked is under way, and no step is taken before rank 0 has its buffer back.
TEST_F(CollectiveStart, that_fails_halfway_ends_the_epoch_on_all_and_writes_no_more) {
  Exchange exchange;
  exchange.run();
  step("rank 0's start fails at its last receive");
  if (rank() != 0) {
    ASSERT_OK(exchange.start());
    exchange.mark();
  }
  harness_barrier();
  if (rank() == 0) {
    starts_left = receives() - 1;
    EXPECT_ERROR(exchange.start(), MPI_ERR_NO_MEM, "Start", "MPI_Start");
    starts_left = 1'000'000;
    std::memset(exchange.received.data(), 0x5a, Exchange::bytes());
    EXPECT_ERROR(exchange.start(), MPI_ERR_REQUEST, "ended with an error");
  } else {
    // By rank 0 itself, or by way of the third rank.
    EXPECT_ERROR(exchange.wait(), MPI_ERR_NO_MEM, "rank 0", "gave its request up: the transfer with", "MPI_Start");
  }
  step("the next request on the communicator");
  Exchange().run();
  if (rank() == 0) {
    const std::vector<std::byte> untouched(Exchange::bytes(), std::byte{0x5a});
    EXPECT_EQ(0, std::memcmp(exchange.received.data(), untouched.data(), untouched.size()));
  }
}

/// The data move all the same.
TEST_F(CollectiveStart, that_cannot_be_told_ends_the_prepare_of_all) {
  Exchange exchange;
  exchange.run();
  step("what tells of rank 0's start fails");
  if (rank() == 0) starts_left = receives();
  ASSERT_OK(exchange.start());
  EXPECT_ERROR(Partita_Pbuf_prepare(exchange.request), MPI_ERR_NO_MEM, "MPI_Start");
  starts_left = 1'000'000;
  exchange.mark();
  ASSERT_OK(exchange.wait());
  exchange.expect_all();
}

}  // namespace
}  // namespace partita::test

/// Stands before the MPI's own.
extern "C" int PMPI_Start(MPI_Request* request) {
  if (partita::test::starts_left.fetch_sub(1) <= 0) return MPI_ERR_NO_MEM;
  return reinterpret_cast<int (*)(MPI_Request*)>(dlsym(RTLD_NEXT, "PMPI_Start"))(request);
}
