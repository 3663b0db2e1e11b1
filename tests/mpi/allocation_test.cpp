// The path of an epoch allocates nothing: neither C++'s new nor, in Partita's own code, anything that ends in it.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "support/allocations.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

template <class Face>
class Allocation : public testing::Test {
 protected:
  static constexpr int partitions = 8;

  /// Allocations in an epoch of `pairs` sends and as many receives, with `between` from one mark to the next: the least
  /// of several epochs, since setup messages of other requests may come in during some.
  long in_an_epoch(int pairs, std::int64_t partition_bytes, std::chrono::microseconds between = {}) {
    std::vector<Sending<Face>> sends(static_cast<std::size_t>(pairs));
    std::vector<Receiving<Face>> recvs(static_cast<std::size_t>(pairs));
    std::vector<typename Face::Request> requests;
    for (auto& send : sends) send.init(partitions, partition_bytes, (rank() + 1) % ranks(), 3);
    for (auto& recv : recvs) recv.init(partitions, partition_bytes, (rank() + ranks() - 1) % ranks(), 3);
    for (auto& send : sends) requests.push_back(send.request);
    for (auto& recv : recvs) requests.push_back(recv.request);
    std::vector<MPI_Status> statuses(requests.size());
    const int count = static_cast<int>(requests.size());
    long least = std::numeric_limits<long>::max();
    for (int epoch = 0; epoch < 6 && !this->HasFailure(); ++epoch) {
      int codes = 0, flag = 0;
      const long before = allocations();
      codes += Face::startall(count, requests.data());
      for (auto& send : sends) {
        for (int p = 0; p < partitions; ++p) {
          if (between.count() > 0) std::this_thread::sleep_for(between);
          codes += Face::pready(p, send.request);
        }
      }
      for (auto& recv : recvs) codes += Face::parrived(recv.request, 0, &flag);
      codes += Face::testall(count, requests.data(), &flag, statuses.data());
      codes += Face::waitall(count, requests.data(), statuses.data());
      least = std::min(least, allocations() - before);
      EXPECT_EQ(codes, 0);
    }
    harness_barrier();
    for (auto& send : sends) send.free();
    for (auto& recv : recvs) recv.free();
    return least;
  }
};

TYPED_TEST_SUITE(Allocation, Faces, FaceNames);

TYPED_TEST(Allocation, the_count_is_live) {
  const long before = allocations();
  const std::vector<int> made(100);
  EXPECT_EQ(allocations(), before + 1) << made.size();
}

TYPED_TEST(Allocation, an_epoch_of_up_to_64_requests_allocates_nothing) {
  for (const std::int64_t partition_bytes : {8, 4096, 200000}) {
    EXPECT_EQ(this->in_an_epoch(1, partition_bytes), 0) << partition_bytes << " bytes a partition";
  }
  EXPECT_EQ(this->in_an_epoch(32, 100), 0);
}

TYPED_TEST(Allocation, partitions_that_leave_one_by_one_allocate_nothing) {
  EXPECT_EQ(this->in_an_epoch(4, 5000, std::chrono::milliseconds(1)), 0);
}

TYPED_TEST(Allocation, an_epoch_of_more_requests_allocates_once_a_call) {
  EXPECT_LE(this->in_an_epoch(100, 100), 2) << "Testall and Waitall";
}

}  // namespace
}  // namespace partita::test
