// A tuning file decides which algorithms collectives take, and they stay right.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr const char* head = "# partita tuning 1\ncollective,driver,ranks,from_bytes,algorithm,medians_us\n";

/// A file that rank 0's environment names, in a Partita that is started with it.
class CollectiveTuning : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("PARTITA_TUNING");
    int running = 0;
    EXPECT_OK(Partita_Initialized(&running));
    if (running != 0) {
      EXPECT_OK(Partita_Finalize());
    }
    EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
    std::remove(file_.c_str());
  }

  int init_with(const std::string& text) {
    if (rank() == 0) {
      std::ofstream(file_) << text;
      setenv("PARTITA_TUNING", file_.c_str(), 1);
    }
    EXPECT_OK(Partita_Finalize());
    return Partita_Init(MPI_COMM_WORLD);
  }

  const std::string file_ = "/tmp/partita_collective_tuning_" + std::to_string(getpid()) + ".csv";

 private:
  ErrorsReturn handler_{MPI_COMM_WORLD};
};

std::string algorithm_of(Partita_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_OK(Partita_Request_get_info(request, &info));
  std::array<char, 64> value{};
  int found = 0;
  MPI_Info_get(info, "partita_algorithm", static_cast<int>(value.size()) - 1, value.data(), &found);
  MPI_Info_free(&info);
  return found != 0 ? value.data() : "";
}

void run_epoch(Partita_Request& request) {
  ASSERT_OK(Partita_Start(&request));
  ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
}

/// Sums `count` integers of each rank; which algorithm did it.
std::string allreduce(int count, MPI_Op op = MPI_SUM, MPI_Info info = MPI_INFO_NULL) {
  const auto size = static_cast<std::size_t>(count);
  std::vector<int> in(size), out(size, -1), expected(size);
  for (std::size_t i = 0; i < size; ++i) {
    const int index = static_cast<int>(i);
    in[i] = rank() * 10 + index;
    expected[i] = ranks() * index + 10 * ranks() * (ranks() - 1) / 2;
  }
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_OK(Partita_Allreduce_init(in.data(), out.data(), count, MPI_INT, op, MPI_COMM_WORLD, info, &request));
  run_epoch(request);
  EXPECT_EQ(expected, out);
  const std::string algorithm = algorithm_of(request);
  EXPECT_OK(Partita_Request_free(&request));
  return algorithm;
}

void add_in_order(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

TEST_F(CollectiveTuning, by_a_file_decides_by_size_and_number_of_ranks) {
  const std::string ranks_of_job = std::to_string(ranks());
  ASSERT_OK(init_with(head + ("allreduce,host," + ranks_of_job + ",0,recursive_halving,\n") +
                      ("allreduce,host," + ranks_of_job + ",1024,ring,ring=3.0\n") +
                      ("bcast,host," + std::to_string(ranks() + 1) + ",0,chain,\n")));
  EXPECT_EQ("recursive_halving", allreduce(1));
  EXPECT_EQ("recursive_halving", allreduce(255));
  EXPECT_EQ("ring", allreduce(256));
  EXPECT_EQ("ring", allreduce(5000));
  // A rule for another number of ranks is not about this job.
  int value = rank() == 0 ? 7 : -1;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  run_epoch(request);
  EXPECT_EQ(7, value);
  EXPECT_EQ("binomial", algorithm_of(request));
  ASSERT_OK(Partita_Request_free(&request));
}

TEST_F(CollectiveTuning, by_a_file_does_not_bind_who_names_an_algorithm_or_what_it_cannot_serve) {
  ASSERT_OK(init_with(head + std::string("allreduce,host,any,0,ring,\n")));
  EXPECT_EQ("ring", allreduce(10));
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_algorithm", "recursive_halving");
  EXPECT_EQ("recursive_halving", allreduce(10, MPI_SUM, info));
  MPI_Info_free(&info);
  MPI_Op in_order = MPI_OP_NULL;
  MPI_Op_create(&add_in_order, 0, &in_order);
  EXPECT_EQ("recursive_doubling", allreduce(10, in_order)) << "a ring is for operations that commute";
  MPI_Op_free(&in_order);
}

/// The root's and the others' buffers differ, and so do those of a rank that is in place.
TEST_F(CollectiveTuning, by_a_file_is_alike_on_a_root_in_place) {
  ASSERT_OK(init_with(head + std::string("scatter,host,any,0,linear,\nscatter,host,any,8,binomial,\n"
                                         "gather,host,any,0,linear,\ngather,host,any,8,binomial,\n")));
  const int root = ranks() - 1;
  for (const int count : {1, 2}) {
    std::vector<int> all(static_cast<std::size_t>(ranks() * count)), mine(static_cast<std::size_t>(count), -1);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<int> before = all;
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_OK(Partita_Scatter_init(all.data(), count, MPI_INT,
                                   rank() == root ? MPI_IN_PLACE : static_cast<void*>(mine.data()), count, MPI_INT,
                                   root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    run_epoch(request);
    EXPECT_EQ(count == 1 ? "linear" : "binomial", algorithm_of(request));
    ASSERT_OK(Partita_Request_free(&request));
    if (rank() != root) {
      EXPECT_EQ(rank() * count, mine[0]);
      all.assign(all.size(), -1);
    } else {
      std::fill_n(all.begin(), root * count, -1);
    }
    ASSERT_OK(Partita_Gather_init(rank() == root ? MPI_IN_PLACE : static_cast<void*>(mine.data()), count, MPI_INT,
                                  all.data(), count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    run_epoch(request);
    EXPECT_EQ(count == 1 ? "linear" : "binomial", algorithm_of(request));
    ASSERT_OK(Partita_Request_free(&request));
    if (rank() == root) {
      EXPECT_EQ(before, all);
    }
  }
}

TEST_F(CollectiveTuning, by_a_malformed_file_fails_on_all_ranks_with_its_line) {
  EXPECT_ERROR(init_with(head + std::string("allreduce,host,any,0,tree,\n")), MPI_ERR_ARG, "rank 0 could not",
               "PARTITA_TUNING", "partita_collective_tuning_", "line 3", "\"tree\"", "expected is one of");
}

TEST_F(CollectiveTuning, by_a_file_that_is_not_there_fails_on_all_ranks) {
  if (rank() == 0) setenv("PARTITA_TUNING", "/nowhere/tuning.csv", 1);
  ASSERT_OK(Partita_Finalize());
  EXPECT_ERROR(Partita_Init(MPI_COMM_WORLD), MPI_ERR_ARG, "rank 0 could not", "/nowhere/tuning.csv cannot be read");
  if (rank() == 0) setenv("PARTITA_TUNING", "/tmp", 1);
  EXPECT_ERROR(Partita_Init(MPI_COMM_WORLD), MPI_ERR_ARG, "/tmp cannot be read");
}

}  // namespace
}  // namespace partita::test
