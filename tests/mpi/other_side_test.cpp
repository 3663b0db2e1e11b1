// When one side of a request fails, gives up or is freed, the other does not wait for it in vain: its waits end with a
// sentence that names the rank and the cause. No time limit is set. What can still complete, completes.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "support/allocations.hpp"
#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/told.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

/// Rank 0 sends to rank 1.
class OtherSide : public testing::Test {
 protected:
  static constexpr int tag = 9;

  bool sends() const { return rank() == 0; }
  void init(std::int64_t partition_bytes, int number = tag) {
    if (sends()) send_.init(4, partition_bytes, 1, number);
    if (!sends()) recv_.init(4, partition_bytes, 0, number);
  }
  /// Both know the other.
  void match() {
    ASSERT_OK(Partita_Start(&request()));
    if (sends()) send_.mark_all(1);
    ASSERT_OK(Partita_Wait(&request(), MPI_STATUS_IGNORE));
  }
  Partita_Request& request() { return sends() ? send_.request : recv_.request; }
  void free() { ASSERT_OK(Partita_Request_free(&request())); }

  /// The ways to wait for the receive or the send.
  enum Way { wait, test, parrived, testall, testany, testsome, get_status, ways };
  int end_by(Way way) {
    Partita_Request& waited = request();
    int code = MPI_SUCCESS;
    int flag = 0, index = 0, count = 0;
    for (; code == MPI_SUCCESS && flag == 0; sched_yield()) {
      if (way == wait) return Partita_Wait(&waited, MPI_STATUS_IGNORE);
      if (way == test) code = Partita_Test(&waited, &flag, MPI_STATUS_IGNORE);
      if (way == parrived) code = Partita_Parrived(waited, 3, &flag);
      if (way == testall) code = Partita_Testall(1, &waited, &flag, MPI_STATUSES_IGNORE);
      if (way == testany) code = Partita_Testany(1, &waited, &index, &flag, MPI_STATUS_IGNORE);
      if (way == testsome) code = Partita_Testsome(1, &waited, &count, &index, MPI_STATUSES_IGNORE);
      if (way == testsome) flag = count;
      if (way == get_status) code = Partita_Request_get_status(waited, &flag, MPI_STATUS_IGNORE);
    }
    return code;
  }
  /// ... ends with an error that says `words`; then the request can be freed.
  void expect_end(Way way, int error_class, const std::string& words) {
    step("way " + std::to_string(way) + " to wait, until: " + words);
    const int code = end_by(way);
    if (way == testall || way == testsome) {
      EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS);
    } else {
      EXPECT_ERROR(code, error_class, words);
    }
    if (way == parrived || way == get_status) {
      EXPECT_ERROR(Partita_Wait(&request(), MPI_STATUS_IGNORE), error_class, words);
    }
    EXPECT_NE(Partita_Start(&request()), MPI_SUCCESS) << "no other epoch can complete";
    free();
  }

  /// The other side has gone. The start of an epoch says so in `words` if it knows already, else its wait does.
  void expect_no_epoch(const std::string& words) {
    const int code = Partita_Start(&request());
    if (code == MPI_SUCCESS) return expect_end(wait, MPI_ERR_REQUEST, words);
    EXPECT_ERROR(code, MPI_ERR_REQUEST, words);
    free();
  }

  Sending<CFace> send_;
  Receiving<CFace> recv_;
  char out_[100] = {};
  char in_[100] = {};

 private:
  ErrorsReturn errors_{MPI_COMM_WORLD};
};

TEST_F(OtherSide, a_receive_hears_that_its_send_was_freed) {
  for (int way = 0; way < ways; ++way) {
    init(1000);
    match();
    RETURN_IF_FAILED();
    if (sends()) {
      free();
    } else if (Partita_Start(&request()) != MPI_SUCCESS) {
      free();  // it knew already
    } else {
      expect_end(static_cast<Way>(way), MPI_ERR_REQUEST, "the sender has freed its request (rank 0)");
    }
    harness_barrier();
  }
}

TEST_F(OtherSide, a_send_hears_that_its_receive_was_freed) {
  for (int way = 0; way < ways; ++way) {
    if (way == parrived) continue;
    for (const std::int64_t partition_bytes : {100, 500 * 1000}) {  // of slots, of the receiver's buffer
      init(partition_bytes);
      match();
      RETURN_IF_FAILED();
      if (!sends()) {
        free();
      } else if (Partita_Start(&request()) != MPI_SUCCESS) {
        free();
      } else {
        expect_end(static_cast<Way>(way), MPI_ERR_REQUEST, "the receiver has freed its request (rank 1)");
      }
      harness_barrier();
    }
  }
}

TEST_F(OtherSide, a_receive_hears_that_its_send_was_freed_before_the_match) {
  if (sends()) {
    init(1000);
    free();
  }
  harness_barrier();
  if (!sends()) {
    init(1000);
    expect_no_epoch("the sender, rank 0, freed its request (tag 9, 4000 bytes in 4 partitions) before it was matched");
  }
}

TEST_F(OtherSide, a_send_hears_that_its_receive_was_freed_before_the_match) {
  if (!sends()) {
    init(1000);
    free();
  }
  harness_barrier();
  if (sends()) {
    init(1000);
    expect_no_epoch(
        "the receiver, rank 1, freed its request (tag 9, 4000 bytes in 4 partitions) before it was matched");
  }
}

/// Its bytes are there, or under way.
TEST_F(OtherSide, an_epoch_that_the_sender_has_completed_before_its_free_completes) {
  for (const std::int64_t partition_bytes : {100, 500 * 1000}) {
    for (const bool receiver_is_late : {true, false}) {
      init(partition_bytes);
      match();
      RETURN_IF_FAILED();
      if (!sends()) {
        recv_.start();
        if (receiver_is_late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        recv_.wait_for(2);
        EXPECT_TRUE(recv_.arrived(3)) << "of an inactive request";
      } else {
        send_.start();
        send_.mark_all(2);
        send_.wait();
      }
      RETURN_IF_FAILED();
      free();
    }
  }
}

/// Slots let a sender be one epoch ahead, and be gone before the receiver begins with it.
TEST_F(OtherSide, an_epoch_that_the_sender_was_ahead_with_completes_after_its_free) {
  init(100);
  match();
  RETURN_IF_FAILED();
  if (told(request(), "partita_link") == "ucx") {
    free();
    GTEST_SKIP() << "over link ucx no sender is ahead";
  }
  if (sends()) {
    send_.start();
    send_.mark_all(2);
    send_.wait();
    free();
    harness_barrier();
    return;
  }
  harness_barrier();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  int pending = 0;
  Partita_Progress(&pending);
  recv_.start();
  recv_.wait_for(2);
  RETURN_IF_FAILED();
  expect_no_epoch("the sender has freed its request (rank 0)");
}

/// Partita starts anew with a trace, and without one at the end.
class Tracing {
 public:
  Tracing() {
    setenv("PARTITA_TRACE", "/dev/null", 1);
    begin_anew();
  }
  ~Tracing() {
    unsetenv("PARTITA_TRACE");
    begin_anew();
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  static void begin_anew() {
    EXPECT_OK(Partita_Finalize());
    EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
  }
};

TEST_F(OtherSide, a_test_without_memory_for_its_error_gives_the_epoch_up) {
  init(1000);
  match();
  RETURN_IF_FAILED();
  if (!sends()) {
    ASSERT_OK(Partita_Start(&request()));
  }
  harness_barrier();
  if (sends()) return free();
  int flag = 0;
  while (Partita_Parrived(request(), 3, &flag) == MPI_SUCCESS) sched_yield();
  fail_allocations_of_this_thread(1, 1);
  const int code = Partita_Test(&request(), &flag, MPI_STATUS_IGNORE);
  end_failing();
  EXPECT_EQ(class_of(code), MPI_ERR_NO_MEM) << told_by(code);
  free();
}

/// An event that is traced takes memory, the first one of all for certain: here a start, of which the match comes
/// before or after.
TEST_F(OtherSide, a_start_without_memory_opens_no_epoch) {
  for (const bool matched : {true, false}) {
    for (const int failing : {0, 1}) {
      const Tracing tracing;
      if (!matched && rank() != failing) harness_barrier();
      init(4096);
      while (matched && told(request(), "partita_matched") != "true") sched_yield();
      if (rank() == failing) {
        fail_allocations_of_this_thread(1, 5);
        const int code = Partita_Start(&request());
        end_failing();
        EXPECT_EQ(class_of(code), MPI_ERR_NO_MEM) << told_by(code);
        EXPECT_EQ(told(request(), "partita_active"), "false");
        if (!matched) harness_barrier();
      }
      for (const std::uint64_t key : {1, 2}) {
        step("epoch " + std::to_string(key) + ", rank " + std::to_string(failing) + " having failed to start it");
        if (sends()) {
          send_.start();
          send_.mark_all(key);
          send_.wait();
        } else {
          recv_.start();
          recv_.wait_for(key);
        }
        RETURN_IF_FAILED();
      }
      free();
    }
  }
}

/// How many allocations fail in a row: with a second one what tells of the first has no memory either. The most come
/// first, while no failure has been told yet.
class WantOfMemory : public OtherSide, public testing::WithParamInterface<long> {};
INSTANTIATE_TEST_SUITE_P(InARow, WantOfMemory, testing::Values(5, 2, 1));

/// Whichever allocation of the match fails: both sides end alike, and the next pair has nothing to do with it.
TEST_P(WantOfMemory, at_the_match_ends_both_sides) {
  for (const bool late_receiver : {false, true}) {
    for (const int failing : {0, 1}) {
      bool failed = true;
      for (long which = 1; failed && which < 200; ++which) {
        step("allocation " + std::to_string(which) + " of rank " + std::to_string(failing));
        const bool inits_late = sends() != late_receiver;
        if (inits_late) harness_barrier();
        int made = MPI_SUCCESS;
        const auto make = [&] {
          made = sends() ? Partita_Psend_init(out_, 4, 25, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request())
                         : Partita_Precv_init(in_, 4, 25, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &request());
        };
        if (rank() == failing) fail_allocations(which, GetParam());
        make();
        for (long tries = 0; made != MPI_SUCCESS && tries < GetParam();
             ++tries) {  // it has used up no place in the order
          EXPECT_EQ(class_of(made), MPI_ERR_NO_MEM);
          make();
        }
        ASSERT_EQ(made, MPI_SUCCESS);
        if (!inits_late) harness_barrier();
        int code = Partita_Start(&request());
        if (code == MPI_SUCCESS && sends()) code = Partita_Pready_range(0, 3, request());
        if (code == MPI_SUCCESS || sends()) code = Partita_Wait(&request(), MPI_STATUS_IGNORE);
        const bool all_made = end_failing();
        if (code != MPI_SUCCESS && code != MPI_ERR_REQUEST) {
          EXPECT_NE(told_by(code).find("out of memory"), std::string::npos) << told_by(code);
        }
        free();
        int more = rank() == failing && !all_made ? 1 : 0;
        PMPI_Bcast(&more, 1, MPI_INT, failing, harness_comm());
        failed = more != 0;
        RETURN_IF_FAILED();
      }
      EXPECT_FALSE(failed) << "so many allocations were not expected";
    }
  }
}

}  // namespace
}  // namespace partita::test
