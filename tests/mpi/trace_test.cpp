// PARTITA_TRACE tells when partitions were marked, left and arrived.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

int occurrences(const std::string& text, const std::string& word) {
  int found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// What `body` leaves in the trace; on the first rank, which writes it.
template <class Body>
std::string traced(Body body) {
  const std::string file = "/tmp/partita_trace_" + std::to_string(getpid()) + ".json";
  EXPECT_OK(Partita_Finalize());
  setenv("PARTITA_TRACE", file.c_str(), 1);
  EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
  unsetenv("PARTITA_TRACE");
  body();
  EXPECT_OK(Partita_Finalize());
  EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
  std::ifstream stream(file);
  std::string trace{std::istreambuf_iterator<char>(stream), {}};
  std::remove(file.c_str());
  return trace;
}

/// From the first rank to the second: some epochs, one of which is marked before the match, as a whole, in ranges or by
/// single partitions.
void transfer(int partitions, int epochs) {
  if (rank() > 1) return;
  std::vector<int> data(static_cast<std::size_t>(partitions));
  MPI_Info info = info_with("partita_transport_partitions", std::to_string(partitions));
  Partita_Request request = PARTITA_REQUEST_NULL;
  if (rank() == 0) {
    ASSERT_OK(Partita_Psend_init(data.data(), partitions, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, info, &request));
  } else {
    ASSERT_OK(Partita_Precv_init(data.data(), partitions, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, info, &request));
  }
  MPI_Info_free(&info);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ASSERT_OK(Partita_Start(&request));
    const int step = epoch % 3 == 0 ? partitions : epoch % 3 == 1 ? 3 : 1;
    for (int p = 0; rank() == 0 && p < partitions; p += step) {
      ASSERT_OK(Partita_Pready_range(p, std::min(p + step, partitions) - 1, request));
    }
    ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
  }
  ASSERT_OK(Partita_Request_free(&request));
}

TEST(Trace, has_each_mark_once_and_before_the_partition_leaves) {
  constexpr int partitions = 70, epochs = 6;  // in two words of bits
  const std::string trace = traced([] { transfer(partitions, epochs); });
  if (rank() != 0) return;
  std::map<std::string, int> marked, left;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    const auto number_behind = [&line](const std::string& word) {
      const auto at = line.find("\"name\":\"" + word + " ");
      if (at == std::string::npos) return std::string();
      const auto begin = line.find(' ', at) + 1;
      return line.substr(begin, line.find('"', begin) - begin);
    };
    if (const std::string partition = number_behind("marked"); !partition.empty()) ++marked[partition];
    if (const std::string partition = number_behind("issued"); !partition.empty()) {
      EXPECT_EQ(++left[partition], marked[partition]) << partition << " has left before its mark\n" << trace;
    }
  }
  EXPECT_EQ(marked.size(), static_cast<std::size_t>(partitions)) << trace;
  for (const auto& [partition, times] : marked) EXPECT_EQ(times, epochs) << partition;
  EXPECT_FALSE(left.empty()) << trace;
}

TEST(Trace, has_the_marks_and_arrivals_of_every_partition_of_a_collective) {
  constexpr int partitions = 3, epochs = 2;
  const std::string trace = traced([] {
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
  });
  if (rank() != 0) return;
  // Each rank but the root gets each partition once an epoch; the rounds of Pbuf_prepare come to each rank, too.
  int rounds = 0;
  while (1 << rounds < ranks()) ++rounds;
  const int transfers = epochs * (partitions * (ranks() - 1) + rounds * ranks());
  EXPECT_EQ(occurrences(trace, "\"ph\":\"B\""), occurrences(trace, "\"ph\":\"E\"")) << trace;
  EXPECT_EQ(transfers, occurrences(trace, "\"marked ")) << trace;
  EXPECT_EQ(transfers, occurrences(trace, "\"arrived ")) << trace;
}

}  // namespace
}  // namespace partita::test
