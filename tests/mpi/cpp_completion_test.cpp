// Completion of several requests in the C++ API: what is completed, and that none of it is lost when one fails.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.hpp>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

static_assert(std::is_nothrow_copy_constructible_v<completion_error>, "it is thrown");
static_assert(std::is_base_of_v<error, completion_error>);

class CppCompletion : public testing::Test {
 protected:
  static int right() { return (rank() + 1) % ranks(); }
  static int left() { return (rank() + ranks() - 1) % ranks(); }

  /// `count` receives from the left, then as many sends to the right, of tags 0, 1, …: matched.
  std::vector<request> ring(std::size_t count) {
    in_.assign(count, -1);
    out_.assign(count, rank());
    std::vector<request> requests;
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back(world_.recv_init(&in_[i], 1, MPI_INT, left(), static_cast<int>(i)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      requests.push_back(world_.send_init(&out_[i], 1, MPI_INT, right(), static_cast<int>(i)));
    }
    matchall(requests);
    return requests;
  }
  /// A started send to nobody, which is complete.
  request complete() const {
    request made = world_.send_init(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0);
    made.match();
    made.start();
    return made;
  }
  /// The match of a pair that cannot be, which has failed.
  request failed() {
    failing_.clear();
    failing_.push_back(world_.recv_init(&short_, 1, MPI_INT, left(), 1000));
    failing_.push_back(world_.send_init(longer_.data(), 2, MPI_INT, right(), 1000));
    request made = imatchall(failing_);
    for (int flag = 0, code = MPI_SUCCESS; code == MPI_SUCCESS;) {
      code = Partita_Request_get_status(made.handle(), &flag, MPI_STATUS_IGNORE);
    }
    return made;
  }
  /// Two that are complete, and between them one that has failed.
  std::array<request, 3> one_failed() { return {complete(), failed(), complete()}; }

  /// `completed` is that of one_failed().
  static void expect_all_three(const std::vector<completion>& completed) {
    ASSERT_EQ(3U, completed.size());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(i, completed[i].index);
      EXPECT_EQ(i == 1, completed[i].failed());
      EXPECT_EQ(i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS, error(completed[i].code).error_class());
    }
  }
  /// `call` throws the error of the failed one, and tells the three both ways.
  template <class Call>
  static void expect_nothing_lost(Call call) {
    completions done;
    try {
      call(done);
      FAIL() << "nothing is thrown";
    } catch (const completion_error& thrown) {
      EXPECT_EQ(MPI_ERR_TRUNCATE, thrown.error_class());
      EXPECT_NE(std::string::npos, std::string(thrown.what()).find("8 bytes")) << thrown.what();
      expect_all_three(thrown.completed());
    }
    expect_all_three({done.begin(), done.end()});
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  communicator world_{MPI_COMM_WORLD};

 private:
  std::vector<int> in_, out_;
  int short_ = 0;
  std::array<int, 2> longer_{};
  std::vector<request> failing_;
};

/// Counts how often each request is completed, and looks at the statuses of receives.
class Tally {
 public:
  explicit Tally(std::size_t requests) : times_(requests) {}

  void add(const completion& each) {
    ASSERT_LT(each.index, times_.size());
    ++times_[each.index];
    EXPECT_FALSE(each.failed());
    if (each.index >= times_.size() / 2) return;
    EXPECT_EQ((rank() + ranks() - 1) % ranks(), each.status.MPI_SOURCE);
    EXPECT_EQ(static_cast<int>(each.index), each.status.MPI_TAG);
  }
  std::size_t completed() const { return static_cast<std::size_t>(std::count(times_.begin(), times_.end(), 1)); }

 private:
  std::vector<int> times_;
};

TEST_F(CppCompletion, a_loop_that_waits_for_any_takes_each_once) {
  std::vector<request> requests = ring(5);
  for (int epoch = 0; epoch < 3; ++epoch) {
    startall(requests);
    Tally tally(requests.size());
    completion done;
    while (waitany(requests, done)) tally.add(done);
    EXPECT_FALSE(done);
    EXPECT_EQ(requests.size(), tally.completed());
  }
}

TEST_F(CppCompletion, a_loop_that_tests_any_takes_each_once) {
  std::vector<request> requests = ring(5);
  startall(requests);
  Tally tally(requests.size());
  completion done;
  while (testany(requests, done)) {
    if (done) tally.add(done);
  }
  EXPECT_EQ(requests.size(), tally.completed());
}

TEST_F(CppCompletion, a_loop_that_waits_for_some_takes_each_once) {
  std::vector<request> requests = ring(20);
  completions done;
  for (int epoch = 0; epoch < 3; ++epoch) {
    startall(requests);
    Tally tally(requests.size());
    while (waitsome(requests, done)) {
      EXPECT_FALSE(done.empty());
      for (const completion& each : done) tally.add(each);
    }
    EXPECT_TRUE(done.empty());
    EXPECT_EQ(requests.size(), tally.completed());
  }
}

TEST_F(CppCompletion, a_loop_that_tests_some_takes_each_once) {
  std::vector<request> requests = ring(20);
  startall(requests);
  Tally tally(requests.size());
  completions done;
  while (testsome(requests, done)) {
    for (const completion& each : done) tally.add(each);
  }
  EXPECT_EQ(requests.size(), tally.completed());
}

TEST_F(CppCompletion, tests_take_nothing_while_nothing_is_complete) {
  std::vector<request> requests = ring(2);
  startall(request_span(requests.data(), 2));  // the receives
  completion one;
  completions done;
  EXPECT_TRUE(testany(requests, one));
  EXPECT_FALSE(one);
  EXPECT_TRUE(testsome(requests, done));
  EXPECT_TRUE(done.empty());
  EXPECT_FALSE(testall(requests, done));
  EXPECT_TRUE(done.empty());
  harness_barrier();  // no rank has sent
  startall(request_span(requests.data() + 2, 2));
  waitall(requests, done);
  Tally tally(requests.size());
  for (const completion& each : done) tally.add(each);
  EXPECT_EQ(requests.size(), tally.completed());
}

TEST_F(CppCompletion, of_none_there_is_no_active_request) {
  std::array<request, 2> none{};
  completion one;
  completions done;
  EXPECT_FALSE(waitany(none, one));
  EXPECT_FALSE(testany(none, one));
  EXPECT_FALSE(waitsome(none, done));
  EXPECT_FALSE(testsome(none, done));
  EXPECT_FALSE(waitsome(request_span(nullptr, 0), done));
  waitall(none, done);
  EXPECT_EQ(2U, done.size());
  EXPECT_TRUE(testall(request_span(nullptr, 0), done));
  EXPECT_TRUE(done.empty());
}

TEST_F(CppCompletion, what_completes_beside_a_failure_is_told) {
  std::array<request, 3> requests = one_failed();
  expect_nothing_lost([&](completions& done) { waitsome(requests, done); });
  requests = one_failed();
  expect_nothing_lost([&](completions& done) { testsome(requests, done); });
  requests = one_failed();
  expect_nothing_lost([&](completions& done) { waitall(requests, done); });
  requests = one_failed();
  expect_nothing_lost([&](completions& done) { (void)testall(requests, done); });
}

TEST_F(CppCompletion, without_an_argument_for_it_the_error_tells_what_completes_beside_a_failure) {
  const auto expect_in_error = [](auto call) {
    try {
      call();
      FAIL() << "nothing is thrown";
    } catch (const completion_error& thrown) {
      expect_all_three(thrown.completed());
    }
  };
  std::array<request, 3> requests = one_failed();
  expect_in_error([&] { waitall(requests); });
  requests = one_failed();
  expect_in_error([&] { (void)testall(requests); });
}

TEST_F(CppCompletion, of_any_the_one_that_failed_is_told) {
  const auto expect_failed = [](auto call) {
    completion done;
    try {
      call(done);
      FAIL() << "nothing is thrown";
    } catch (const completion_error& thrown) {
      EXPECT_EQ(MPI_ERR_TRUNCATE, thrown.error_class());
      ASSERT_EQ(1U, thrown.completed().size());
      EXPECT_EQ(1U, thrown.completed()[0].index);
    }
    EXPECT_EQ(1U, done.index);
    EXPECT_TRUE(done.failed());
  };
  std::array<request, 2> requests{request(), failed()};
  expect_failed([&](completion& done) { waitany(requests, done); });
  requests[1] = failed();
  expect_failed([&](completion& done) { testany(requests, done); });
  completion done;
  EXPECT_FALSE(waitany(requests, done)) << "the failed one is inactive";
}

TEST_F(CppCompletion, a_call_that_is_refused_has_completed_nothing) {
  std::array<request, 2> requests{complete(), world_.send_init(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0)};
  requests[1].match();
  queue order = queue::host();
  order.enqueue_start(requests[1]);
  completion one;
  completions done;
  const auto expect_refused = [](auto call) {
    try {
      call();
      FAIL() << "nothing is thrown";
    } catch (const completion_error&) {
      FAIL() << "something is completed";
    } catch (const error& thrown) {
      EXPECT_EQ(MPI_ERR_REQUEST, thrown.error_class());
    }
  };
  expect_refused([&] { waitany(requests, one); });
  expect_refused([&] { testany(requests, one); });
  EXPECT_FALSE(one);
  expect_refused([&] { waitsome(requests, done); });
  expect_refused([&] { testsome(requests, done); });
  expect_refused([&] { waitall(requests, done); });
  expect_refused([&] { (void)testall(requests, done); });
  EXPECT_TRUE(done.empty());
  order.enqueue_wait(requests[1]);
  EXPECT_TRUE(waitany(requests, one));
  EXPECT_EQ(0U, one.index);
}

/// With a time limit of a second.
class CppCompletionTimeout : public CppCompletion {};

TEST_F(CppCompletionTimeout, a_wait_that_fails_as_a_whole_leaves_nothing_active) {
  harness_barrier();  // the limit holds for the match, too
  std::vector<request> requests = ring(2);
  const request_span receives(requests.data(), 2);  // nobody sends
  completion one;
  completions done;
  startall(receives);
  EXPECT_TRUE(throws([&] { waitsome(receives, done); }, MPI_ERR_OTHER, {"Waitsome", "PARTITA_TIMEOUT"}));
  EXPECT_TRUE(done.empty());
  EXPECT_FALSE(waitany(receives, one)) << "they were given up";
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
