// Many messages of the MPI's in GPU memory: under way at once, unexpected, and one after the other with flat memory.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/footprint.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

constexpr int row = 500;  ///< ints; in bytes more than an offer is where messages are offers
constexpr int tags_of_rows = 4;

/// Many rows of ints that lie in one piece of memory. Row i begins with `from` + i, and has fewer ints the larger i is.
class Rows {
 public:
  Rows(int count, Memory memory, int from) : ints_(memory, Ints(static_cast<std::size_t>(count) * row, from)) {
    Ints all(static_cast<std::size_t>(count) * row);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = from + static_cast<int>(i) / row;
    ints_.set(all);
  }
  int* of(int i) { return ints_.data() + static_cast<std::ptrdiff_t>(i) * row; }
  Ints get() { return ints_.get(); }

 private:
  PlacedInts ints_;
};

/// Every third message has less than an offer takes.
int ints_in(int message) {
  return message % 3 == 0 ? message % 60 : row - message % 100;
}

class ManyMessages : public testing::TestWithParam<Memory> {};

/// They all lie in the MPI before the first receive is posted, and are received tag by tag, the last tag first.
TEST_P(ManyMessages, that_nobody_expects_arrive_in_order) {
  const auto count = static_cast<int>(environment_number("PARTITEST_UNEXPECTED", 2500));
  Rows out(count, Memory::gpu, 10'000 * rank());
  Rows in(count, GetParam(), -1 - count);
  const Ints untouched = in.get();
  std::vector<MPI_Request> sends(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    ASSERT_OK(MPI_Isend(out.of(i), ints_in(i), MPI_INT, right(), i % tags_of_rows, MPI_COMM_WORLD,
                        &sends[static_cast<std::size_t>(i)]));
  }
  harness_barrier();
  for (int tag = tags_of_rows - 1; tag >= 0; --tag) {
    for (int i = tag; i < count; i += tags_of_rows) {
      if (i % 500 == 0) step("receives message " + std::to_string(i));
      MPI_Status status;
      int received = -1;
      // Every other one from anybody: there is one sender.
      const int source = i % 8 < tags_of_rows ? left() : MPI_ANY_SOURCE;
      ASSERT_OK(MPI_Recv(in.of(i), row, MPI_INT, source, tag, MPI_COMM_WORLD, &status));
      ASSERT_OK(MPI_Get_count(&status, MPI_INT, &received));
      ASSERT_EQ(received, ints_in(i)) << "message " << i;
      ASSERT_EQ(status.MPI_SOURCE, left());
    }
  }
  ASSERT_OK(MPI_Waitall(count, sends.data(), MPI_STATUSES_IGNORE));
  Ints expected = untouched;
  for (int i = 0; i < count; ++i) {
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(i) * row, ints_in(i), 10'000 * left() + i);
  }
  EXPECT_EQ(in.get(), expected);
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(In, ManyMessages, testing::Values(Memory::gpu, Memory::host), [](const auto& info) {
  return std::string(info.param == Memory::gpu ? "gpu_memory" : "host_memory");
});

/// Several at once of each of the ways that keep something for the time of a message.
TEST(ManyMessagesSoak, keep_memory_flat) {
  constexpr int at_once = 8;
  constexpr int most = 12'000;
  const long rounds = environment_number("PARTITEST_MESSAGES", 5000) / at_once;
  PlacedInts out(Memory::gpu, counting(most, 7));
  PlacedInts in(Memory::gpu, Ints(static_cast<std::size_t>(at_once) * most, -1));
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_vector(300, 1, 2, MPI_INT, &every_other));
  ASSERT_OK(MPI_Type_commit(&every_other));
  const auto place = [&](int slot) { return in.data() + static_cast<std::ptrdiff_t>(slot) * most; };
  const auto round_of = [&](int few) {
    std::vector<MPI_Request> requests;
    const auto receive = [&](int slot, int count, MPI_Datatype datatype) {
      requests.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Irecv(place(slot), count, datatype, left(), slot, MPI_COMM_WORLD, &requests.back()));
    };
    const auto send = [&](int slot, int count, MPI_Datatype datatype) {
      requests.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Isend(out.data(), count, datatype, right(), slot, MPI_COMM_WORLD, &requests.back()));
    };
    receive(0, row, MPI_INT);
    ASSERT_OK(MPI_Cancel(&requests.back()));
    for (int slot = 1; slot <= 4; ++slot) receive(slot, few, MPI_INT);
    receive(5, 1, every_other);
    // Nothing of this tag has been sent.
    ASSERT_OK(MPI_Wait(requests.data(), MPI_STATUS_IGNORE));
    for (int slot = 1; slot <= 4; ++slot) send(slot, few, MPI_INT);
    ASSERT_OK(MPI_Request_free(&requests.back()));
    send(5, 1, every_other);
    send(6, row, MPI_INT);  // which nobody expects
    ASSERT_OK(MPI_Sendrecv(out.data(), row, MPI_INT, right(), 7, place(7), row, MPI_INT, left(), 7, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE));
    ASSERT_OK(MPI_Recv(place(6), row, MPI_INT, left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ASSERT_OK(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  };
  std::optional<Footprint> warm;
  for (long round = 0; round < rounds && !HasFailure(); ++round) {
    if (round == rounds / 5) {
      harness_barrier();
      warm.emplace();
    }
    if (round % 100 == 0) step("round " + std::to_string(round));
    round_of(round % 50 == 3 ? most : round % 2 == 0 ? row : 2);
  }
  harness_barrier();
  if (HasFailure()) return;
  expect_flat(warm.value(), std::to_string(rounds * at_once * 4 / 5) + " messages each way");
  in.set(Ints(static_cast<std::size_t>(at_once) * most, -1));
  round_of(row);
  const Ints all = in.get();
  for (int slot = 0; slot < at_once; ++slot) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(slot) * most;
    const bool is_whole = slot != 0 && slot != 5;  // cancelled; with gaps
    if (is_whole) {
      EXPECT_EQ(Ints(first, first + row), counting(row, 7)) << "slot " << slot;
    }
  }
  ASSERT_OK(MPI_Type_free(&every_other));
}

}  // namespace
}  // namespace partita::test
