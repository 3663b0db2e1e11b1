// Calls on many requests of all kinds, one of which fails: MPI_ERR_IN_STATUS, and every status says what became of its
// request (MPI-4, section 3.7.5).
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int untouched = 4711;

template <class Face>
class MixedErrors : public testing::Test {
 protected:
  /// Places in the array: all that a caller may pass in it.
  enum Place { null, inactive, to_nobody, from_nobody, send, recv, failing_send, failing_recv, places };

  void SetUp() override {
    const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
    idle_.init(1, 10, MPI_PROC_NULL, 3);
    to_nobody_.init(2, 10, MPI_PROC_NULL, 3);
    from_nobody_.init(2, 10, MPI_PROC_NULL, 3);
    send_.init(4, 1000, right, 3);
    recv_.init(2, 2000, left, 3);
    failing_recv_.init(4, 99, left, 4);
    // What is wrong comes out when the sends' offers come in: in the wait, since the receives are started by then.
    failing_recv_.start();
    harness_barrier();
    failing_send_.init(4, 100, right, 4);
    requests_ = {Face::null(),  idle_.request, to_nobody_.request,    from_nobody_.request,
                 send_.request, recv_.request, failing_send_.request, failing_recv_.request};
  }
  void TearDown() override {
    idle_.free();
    to_nobody_.free();
    from_nobody_.free();
    send_.free();
    recv_.free();
    failing_send_.free();
    failing_recv_.free();
  }
  void start_and_mark() {
    from_nobody_.start();
    recv_.start();
    to_nobody_.start();
    to_nobody_.mark_all(1);
    send_.start();
    send_.mark_all(1);
    // The answer may be here already.
    const int code = Face::start(&failing_send_.request);
    send_fails_in_wait_ = code == MPI_SUCCESS;
    if (!send_fails_in_wait_) expect_failure(code);
  }

  bool fails(int place) const { return place == failing_recv || (place == failing_send && send_fails_in_wait_); }
  static void expect_failure(int code) { EXPECT_ERROR(code, MPI_ERR_TRUNCATE, "sizes", "400 bytes", "396 bytes"); }

  Sending<Face> idle_, to_nobody_, send_, failing_send_;
  Receiving<Face> from_nobody_, recv_, failing_recv_;
  std::vector<typename Face::Request> requests_;
  bool send_fails_in_wait_ = true;
  ErrorsReturn handler_{MPI_COMM_WORLD};
};

TYPED_TEST_SUITE(MixedErrors, Faces, FaceNames);

TYPED_TEST(MixedErrors, waitall_gives_each_request_its_own_code) {
  this->start_and_mark();
  std::vector<MPI_Status> statuses(this->places);
  std::vector<int> failures(this->places);
  // One that has not come to its end when another fails is pending, and the next call's.
  for (bool pending = true; pending;) {
    step("Waitall of mixed requests");
    for (auto& status : statuses) status.MPI_ERROR = untouched;
    const int code = TypeParam::waitall(this->places, this->requests_.data(), statuses.data());
    pending = false;
    if (code == MPI_SUCCESS) break;
    ASSERT_EQ(code, MPI_ERR_IN_STATUS);
    int failed = 0;
    for (int i = 0; i < this->places; ++i) {
      const int error = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
      SCOPED_TRACE("request " + std::to_string(i));
      if (error == MPI_ERR_PENDING) {
        pending = true;
      } else if (error != MPI_SUCCESS) {
        ASSERT_TRUE(this->fails(i));
        this->expect_failure(error);
        ++failures[static_cast<std::size_t>(i)];
        ++failed;
      }
    }
    EXPECT_GT(failed, 0);
  }
  for (int i = 0; i < this->places; ++i) {
    EXPECT_EQ(failures[static_cast<std::size_t>(i)], this->fails(i) ? 1 : 0) << "request " << i;
  }
  EXPECT_TRUE(this->recv_.holds_all(1));
}

TYPED_TEST(MixedErrors, testall_does_too) {
  this->start_and_mark();
  std::vector<MPI_Status> statuses(this->places);
  int code = MPI_SUCCESS, failures = 0;
  for (int flag = 0; flag == 0; sched_yield()) {
    step("Testall of mixed requests");
    code = TypeParam::testall(this->places, this->requests_.data(), &flag, statuses.data());
    if (code == MPI_SUCCESS) continue;
    ASSERT_EQ(code, MPI_ERR_IN_STATUS);
    for (int i = 0; i < this->places; ++i) {
      const int error = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      ASSERT_TRUE(this->fails(i)) << "request " << i;
      this->expect_failure(error);
      ++failures;
    }
  }
  EXPECT_EQ(failures, this->send_fails_in_wait_ ? 2 : 1);
  EXPECT_TRUE(this->recv_.holds_all(1));
}

TYPED_TEST(MixedErrors, waitsome_reports_the_failed_ones_beside_the_good_ones) {
  this->start_and_mark();
  std::vector<MPI_Status> statuses(this->places);
  std::vector<int> indices(this->places), reported(this->places);
  for (int found = 0;;) {
    step("Waitsome of mixed requests");
    const int code = TypeParam::waitsome(this->places, this->requests_.data(), &found, indices.data(), statuses.data());
    if (found == MPI_UNDEFINED) break;
    ASSERT_TRUE(code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS) << sentence_of(code);
    int failed = 0;
    for (int n = 0; n < found; ++n) {
      const int i = indices[static_cast<std::size_t>(n)];
      ++reported[static_cast<std::size_t>(i)];
      if (!this->fails(i)) continue;
      this->expect_failure(statuses[static_cast<std::size_t>(n)].MPI_ERROR);
      ++failed;
    }
    EXPECT_EQ(failed > 0, code == MPI_ERR_IN_STATUS);
  }
  EXPECT_EQ(reported, (std::vector<int>{0, 0, 1, 1, 1, 1, this->send_fails_in_wait_, 1}));
  EXPECT_TRUE(this->recv_.holds_all(1));
}

#if !defined(PARTITEST_C_ONLY)
/// Whether the MPI itself reports a message that is longer than its buffer: Open MPI 4.1 does not where a rank sends to
/// itself. Collective.
bool mpi_reports_truncation() {
  ErrorsReturn handler(MPI_COMM_WORLD);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  int in = -1;
  const int out[2] = {1, 2};
  return PMPI_Sendrecv(out, 2, MPI_INT, right, 6, &in, 1, MPI_INT, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
         MPI_SUCCESS;
}

/// Requests of the MPI's among ours: `foreign_fails` by a message that is longer than its buffer.
void wait_with_foreign(bool ours_fails, bool foreign_fails) {
  ErrorsReturn handler(MPI_COMM_WORLD);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Sending<StandardFace> send;
  Receiving<StandardFace> recv;
  recv.init(4, ours_fails ? 999 : 1000, left, 3);
  recv.start();
  harness_barrier();
  send.init(4, 1000, right, 3);
  const int started = MPI_Start(&send.request);
  const bool send_fails = ours_fails && started == MPI_SUCCESS;
  if (started == MPI_SUCCESS) {
    send.mark_all(1);
  } else {
    ASSERT_TRUE(ours_fails) << sentence_of(started);
  }
  int in[2] = {-1, -1};
  const int out[2] = {rank(), rank() + 100};
  enum Place { mine, theirs, null, my_send, their_send, places };
  std::vector<MPI_Request> requests = {recv.request, MPI_REQUEST_NULL, MPI_REQUEST_NULL, send.request,
                                       MPI_REQUEST_NULL};
  ASSERT_OK(MPI_Irecv(in, foreign_fails ? 1 : 2, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[theirs]));
  ASSERT_OK(MPI_Isend(out, 2, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[their_send]));

  std::vector<int> failures(places);
  int code = MPI_ERR_IN_STATUS;
  for (int calls = 0; code == MPI_ERR_IN_STATUS; ++calls) {
    step("Waitall of both kinds");
    std::vector<MPI_Status> statuses(places);
    code = MPI_Waitall(places, requests.data(), statuses.data());
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < places; ++i) {
      const int error = statuses[static_cast<std::size_t>(i)].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      EXPECT_EQ(class_of(error), MPI_ERR_TRUNCATE) << "request " << i << ": " << sentence_of(error);
      ++failures[static_cast<std::size_t>(i)];
    }
    ASSERT_LT(calls, places) << "each call ends at least one request";
  }
  EXPECT_OK(code);
  EXPECT_EQ(failures, (std::vector<int>{ours_fails, foreign_fails, 0, send_fails, 0}));
  EXPECT_EQ(requests[theirs], MPI_REQUEST_NULL);
  EXPECT_EQ(requests[their_send], MPI_REQUEST_NULL);
  EXPECT_EQ(requests[mine], recv.request);
  if (!ours_fails) {
    EXPECT_TRUE(recv.holds_all(1));
  }
  if (!foreign_fails) {
    EXPECT_EQ(in[1], left + 100);
  }
  send.free();
  recv.free();
}

TEST(MixedErrorsWithForeign, ours_fails_and_the_mpis_complete) {
  wait_with_foreign(true, false);
}
TEST(MixedErrorsWithForeign, the_mpis_fails_and_ours_completes) {
  if (!mpi_reports_truncation()) GTEST_SKIP() << "this MPI does not report a truncated message of a rank to itself";
  wait_with_foreign(false, true);
}
TEST(MixedErrorsWithForeign, both_fail) {
  if (!mpi_reports_truncation()) GTEST_SKIP() << "this MPI does not report a truncated message of a rank to itself";
  wait_with_foreign(true, true);
}

/// One of the MPI's that has failed before anybody waits. In Open MPI 4.1 the MPI's own call would never return where
/// threads may call it.
void wait_for_failed(bool ours_too) {
  if (!mpi_reports_truncation()) GTEST_SKIP() << "this MPI does not report a truncated message of a rank to itself";
  ErrorsReturn handler(MPI_COMM_WORLD);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Receiving<StandardFace> recv;
  Sending<StandardFace> send;
  if (ours_too) {
    recv.init(4, 1000, left, 3);
    recv.start();
    send.init(4, 1000, right, 3);
    send.start();
    send.mark_all(1);
  }
  int in = -1;
  const int out[2] = {1, 2};
  enum Place { theirs, null, their_send, mine, my_send, places };
  std::vector<MPI_Request> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                                       ours_too ? recv.request : MPI_REQUEST_NULL,
                                       ours_too ? send.request : MPI_REQUEST_NULL};
  ASSERT_OK(MPI_Irecv(&in, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[theirs]));
  ASSERT_OK(MPI_Isend(out, 2, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[their_send]));
  step("the message that is too long comes");
  for (int failed = 0; failed == 0; sched_yield()) {
    const int code = MPI_Request_get_status(requests[theirs], &failed, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) break;  // in MPICH it says so
  }
  step("Waitall of one that has failed");
  std::vector<MPI_Status> statuses(places);
  ASSERT_EQ(MPI_Waitall(places, requests.data(), statuses.data()), MPI_ERR_IN_STATUS);
  EXPECT_EQ(class_of(statuses[theirs].MPI_ERROR), MPI_ERR_TRUNCATE);
  EXPECT_EQ(statuses[null].MPI_ERROR, MPI_SUCCESS);
  EXPECT_EQ(requests[theirs], MPI_REQUEST_NULL);
  EXPECT_OK(MPI_Waitall(places, requests.data(), statuses.data())) << "what was pending";
  EXPECT_EQ(requests[their_send], MPI_REQUEST_NULL);
  if (ours_too) {
    EXPECT_TRUE(recv.holds_all(1));
    recv.free();
    send.free();
  }
}

TEST(MixedErrorsWithForeign, the_mpis_has_failed_before) {
  wait_for_failed(false);
}
TEST(MixedErrorsWithForeign, the_mpis_has_failed_before_among_ours) {
  wait_for_failed(true);
}
#endif

}  // namespace
}  // namespace partita::test
