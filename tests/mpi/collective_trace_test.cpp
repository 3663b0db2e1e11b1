// PARTITA_TRACE tells when partitions of a collective were marked, left and arrived.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

int occurrences(const std::string& text, const std::string& word) {
  int found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(CollectiveTrace, has_the_arrival_of_every_partition) {
  constexpr int partitions = 3, epochs = 2;
  const std::string file = "/tmp/partita_collective_trace_" + std::to_string(getpid()) + ".json";
  ASSERT_OK(Partita_Finalize());
  setenv("PARTITA_TRACE", file.c_str(), 1);
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  unsetenv("PARTITA_TRACE");
  std::vector<int> data(partitions, rank());
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Pbcast_init(data.data(), partitions, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ASSERT_OK(Partita_Start(&request));
    ASSERT_OK(Partita_Pbuf_prepare(request));
    if (rank() == 0) {
      ASSERT_OK(Partita_Pready_range(0, partitions - 1, request));
    }
    ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
  }
  ASSERT_OK(Partita_Request_free(&request));
  ASSERT_OK(Partita_Finalize());
  if (rank() == 0) {
    std::ifstream stream(file);
    const std::string trace{std::istreambuf_iterator<char>(stream), {}};
    std::remove(file.c_str());
    // Each rank but the root gets each partition once an epoch; the rounds of Pbuf_prepare come to each rank, too.
    int rounds = 0;
    while (1 << rounds < ranks()) ++rounds;
    EXPECT_EQ(occurrences(trace, "\"ph\":\"B\""), occurrences(trace, "\"ph\":\"E\"")) << trace;
    EXPECT_EQ(epochs * (partitions * (ranks() - 1) + rounds * ranks()), occurrences(trace, "\"arrived ")) << trace;
  }
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
}

}  // namespace
}  // namespace partita::test
