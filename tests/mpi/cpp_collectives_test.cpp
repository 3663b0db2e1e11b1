// Collectives of the C++ API do what MPI's own do. That each hands its arguments on is tested by cpp_collectives_calls.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.hpp>

#include <numeric>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

class CppCollectives : public testing::Test {
 protected:
  static int sum_of_ranks() { return ranks() * (ranks() - 1) / 2; }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  communicator world_{MPI_COMM_WORLD};
};

TEST_F(CppCollectives, a_partitioned_one_moves_each_partition_when_it_is_marked) {
  constexpr int partitions = 3, count = 2;
  std::vector<int> in(partitions * count), out(partitions * count);
  request sum = world_.pallreduce_init(in.data(), out.data(), partitions, count, MPI_INT, MPI_SUM);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::iota(in.begin(), in.end(), rank() + 10 * epoch);
    sum.start();
    sum.pready(2);
    while (!sum.parrived(2)) {
    }
    EXPECT_EQ(sum_of_ranks() + ranks() * (10 * epoch + 5), out[5]);
    sum.pready_range(0, 1);
    sum.wait();
    EXPECT_EQ(sum_of_ranks() + ranks() * 10 * epoch, out[0]);
  }
}

TEST_F(CppCollectives, one_without_partitions_is_started_and_awaited) {
  std::vector<int> all(static_cast<std::size_t>(ranks()), -1), expected(all.size());
  std::iota(expected.begin(), expected.end(), 0);
  const int own = rank();
  request gathered = world_.allgather_init(&own, 1, MPI_INT, all.data(), 1, MPI_INT);
  gathered.start();
  gathered.wait();
  EXPECT_EQ(expected, all);
}

TEST_F(CppCollectives, those_without_partitions_run_in_a_queue) {
  int value = 0, sum = 0;
  std::vector<request> program;
  program.push_back(world_.bcast_init(&value, 1, MPI_INT, ranks() - 1));
  program.push_back(world_.allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM));
  program.push_back(world_.barrier_init());
  matchall(program);
  queue order = queue::host();
  for (int epoch = 1; epoch <= 3; ++epoch) {
    value = rank() == ranks() - 1 ? epoch : 0;
    for (request& each : program) {
      order.enqueue_start(each);
      order.enqueue_wait(each);
    }
    order.wait();
    EXPECT_EQ(epoch * ranks(), sum);
  }
}

TEST_F(CppCollectives, an_info_object_reaches_the_call) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_algorithm", "carrier-pigeon");
  int value = 0;
  EXPECT_TRUE(throws([&] { (void)world_.pbcast_init(&value, 1, 1, MPI_INT, 0, info); }, MPI_ERR_INFO_VALUE,
                     {"Pbcast_init", "carrier-pigeon"}));
  EXPECT_TRUE(throws([&] { (void)world_.bcast_init(&value, 1, MPI_INT, 0, info); }, MPI_ERR_INFO_VALUE,
                     {"Bcast_init", "carrier-pigeon"}));
  MPI_Info_free(&info);
}

TEST_F(CppCollectives, a_wrong_root_is_thrown) {
  int value = 0;
  EXPECT_TRUE(throws([&] { (void)world_.pbcast_init(&value, 1, 1, MPI_INT, ranks()); }, MPI_ERR_ROOT, {"Pbcast_init"}));
}

}  // namespace
}  // namespace partita::test
