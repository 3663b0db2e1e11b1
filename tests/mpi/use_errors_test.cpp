// Wrong use of requests: marked too often, out of range, before Start, freed while active, sizes that differ. Each gets
// its class and sentence, and leaves the request as it was.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

template <class Face>
class UseErrors : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    handler_ = std::make_unique<ErrorsReturn>(comm_);
    send_.init(4, 100, rank(), 1, comm_);
    recv_.init(4, 100, rank(), 1, comm_);
  }
  void TearDown() override {
    handler_.reset();
    if (send_.request != Face::null()) send_.free();
    if (recv_.request != Face::null()) recv_.free();
    EXPECT_OK(MPI_Comm_free(&comm_));
  }

  /// After a wrong call the pair must still work.
  void finish_epoch(const std::vector<int>& still_to_mark, std::uint64_t key) {
    step("completing after a wrong call");
    for (const int p : still_to_mark) send_.mark(p, key);
    recv_.wait_for(key);
    send_.wait();
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::unique_ptr<ErrorsReturn> handler_;
  Sending<Face> send_;
  Receiving<Face> recv_;
};

/// A null handle of the standard face is the MPI's, and so is the sentence, in which Open MPI names no call.
template <class Face>
testing::AssertionResult is_null_error(int code, const std::string& call) {
  constexpr bool own_sentence = std::is_same_v<Face, CFace>;
  return is_error(code, MPI_ERR_REQUEST, own_sentence ? std::vector{call} : std::vector<std::string>{});
}

TYPED_TEST_SUITE(UseErrors, Faces, FaceNames);

TYPED_TEST(UseErrors, pready_checks_the_partition) {
  this->send_.start();
  this->recv_.start();
  for (const int p : {-1, 4, 5, 1 << 30}) {
    EXPECT_ERROR(TypeParam::pready(p, this->send_.request), MPI_ERR_ARG, "Pready", "partition", std::to_string(p));
  }
  this->finish_epoch({0, 1, 2, 3}, 1);
}

TYPED_TEST(UseErrors, a_sentence_begins_with_the_call_as_it_was_made) {
  const auto begins_with = [](int code, const char* call) {
    return sentence_of(code).starts_with(std::string(TypeParam::prefix) + call + ": ");
  };
  EXPECT_TRUE(begins_with(TypeParam::pready(0, this->send_.request), "Pready"));
  EXPECT_TRUE(begins_with(TypeParam::pready_range(0, 1, this->send_.request), "Pready_range"));
  this->send_.start();
  this->recv_.start();
  EXPECT_TRUE(begins_with(TypeParam::start(&this->send_.request), "Start"));
  EXPECT_TRUE(begins_with(TypeParam::startall(1, &this->send_.request), "Startall"));
  EXPECT_TRUE(begins_with(TypeParam::free(&this->send_.request), "Request_free"));
  int flag = 0;
  EXPECT_TRUE(begins_with(TypeParam::parrived(this->recv_.request, 99, &flag), "Parrived"));
  this->finish_epoch({0, 1, 2, 3}, 1);
}

TYPED_TEST(UseErrors, pready_to_proc_null_checks_the_partition) {
  Sending<TypeParam> nowhere;
  nowhere.init(4, 100, MPI_PROC_NULL, 1, this->comm_);
  nowhere.start();
  EXPECT_ERROR(TypeParam::pready(4, nowhere.request), MPI_ERR_ARG, "Pready", "partition", "4");
  EXPECT_ERROR(TypeParam::pready_range(2, 1, nowhere.request), MPI_ERR_ARG, "Pready_range", "2", "1");
  nowhere.wait();
  nowhere.free();
}

TYPED_TEST(UseErrors, pready_range_checks_both_ends) {
  this->send_.start();
  this->recv_.start();
  auto& request = this->send_.request;
  EXPECT_ERROR(TypeParam::pready_range(-1, 2, request), MPI_ERR_ARG, "Pready_range", "-1");
  EXPECT_ERROR(TypeParam::pready_range(2, 4, request), MPI_ERR_ARG, "Pready_range", "4");
  EXPECT_ERROR(TypeParam::pready_range(3, 1, request), MPI_ERR_ARG, "Pready_range", "3", "1");
  this->finish_epoch({0, 1, 2, 3}, 1);
}

TYPED_TEST(UseErrors, pready_list_marks_what_stands_before_a_wrong_entry) {
  this->send_.start();
  this->recv_.start();
  auto& request = this->send_.request;
  for (int p = 0; p < 4; ++p) this->send_.fill(p, 1);
  const int beyond[] = {0, 4, 3}, twice[] = {2, 0, 3};
  EXPECT_ERROR(TypeParam::pready_list(3, beyond, request), MPI_ERR_ARG, "Pready_list", "4");
  EXPECT_ERROR(TypeParam::pready_list(3, twice, request), MPI_ERR_ARG, "Pready_list", "0", "marked");
  EXPECT_ERROR(TypeParam::pready_list(2, nullptr, request), MPI_ERR_ARG, "Pready_list", "partitions");
  const int code = TypeParam::pready_list(-1, beyond, request);
  EXPECT_TRUE(class_of(code) == MPI_ERR_COUNT || class_of(code) == MPI_ERR_ARG) << sentence_of(code);
  EXPECT_OK(TypeParam::pready_list(0, nullptr, request));
  this->finish_epoch({1, 3}, 1);
}

TYPED_TEST(UseErrors, marking_twice_is_refused_and_what_stands_before_it_is_marked) {
  for (std::uint64_t key = 1; key <= 2; ++key) {
    for (int p = 0; p < 4; ++p) this->send_.fill(p, key);
    this->send_.start();
    this->recv_.start();
    this->send_.mark(1, key);
    EXPECT_ERROR(TypeParam::pready(1, this->send_.request), MPI_ERR_ARG, "Pready", "1", "marked");
    EXPECT_ERROR(TypeParam::pready_range(0, 2, this->send_.request), MPI_ERR_ARG, "Pready_range", "1", "marked");
    this->finish_epoch({2, 3}, key);
  }
}

TYPED_TEST(UseErrors, marking_needs_an_active_send) {
  auto& send = this->send_.request;
  auto& recv = this->recv_.request;
  EXPECT_ERROR(TypeParam::pready(0, send), MPI_ERR_REQUEST, "Pready", "Start");
  EXPECT_ERROR(TypeParam::pready_range(0, 1, send), MPI_ERR_REQUEST, "Pready_range", "Start");
  this->recv_.start();
  EXPECT_ERROR(TypeParam::pready(0, recv), MPI_ERR_REQUEST, "Pready", "receive");
  EXPECT_ERROR(TypeParam::pready(0, TypeParam::null()), MPI_ERR_REQUEST, "Pready");
  this->send_.start();
  this->finish_epoch({0, 1, 2, 3}, 1);
  EXPECT_ERROR(TypeParam::pready(0, send), MPI_ERR_REQUEST, "Pready", "Start");
}

TYPED_TEST(UseErrors, parrived_needs_a_receive_and_a_partition_of_it) {
  this->send_.start();
  this->recv_.start();
  int flag = 0;
  EXPECT_ERROR(TypeParam::parrived(this->send_.request, 0, &flag), MPI_ERR_REQUEST, "Parrived", "send");
  for (const int p : {-1, 4, 1 << 30}) {
    EXPECT_ERROR(TypeParam::parrived(this->recv_.request, p, &flag), MPI_ERR_ARG, "Parrived", "partition",
                 std::to_string(p));
  }
  EXPECT_ERROR(TypeParam::parrived(this->recv_.request, 0, nullptr), MPI_ERR_ARG, "Parrived", "flag");
  this->finish_epoch({0, 1, 2, 3}, 1);
}

TYPED_TEST(UseErrors, starting_an_active_request_is_refused) {
  this->send_.start();
  this->recv_.start();
  EXPECT_ERROR(TypeParam::start(&this->send_.request), MPI_ERR_REQUEST, "Start", "active");
  EXPECT_ERROR(TypeParam::start(&this->recv_.request), MPI_ERR_REQUEST, "Start", "active");
  this->finish_epoch({0, 1, 2, 3}, 1);
  auto null = TypeParam::null();
  EXPECT_TRUE(is_null_error<TypeParam>(TypeParam::start(&null), "Start"));
}

TYPED_TEST(UseErrors, freeing_an_active_request_is_refused_and_leaves_it_usable) {
  this->send_.start();
  this->recv_.start();
  const auto send = this->send_.request;
  EXPECT_ERROR(TypeParam::free(&this->send_.request), MPI_ERR_REQUEST, "Request_free", "active");
  EXPECT_ERROR(TypeParam::free(&this->recv_.request), MPI_ERR_REQUEST, "Request_free", "active");
  EXPECT_EQ(this->send_.request, send);
  this->finish_epoch({0, 1, 2, 3}, 1);
  auto null = TypeParam::null();
  EXPECT_TRUE(is_null_error<TypeParam>(TypeParam::free(&null), "Request_free"));
}

TYPED_TEST(UseErrors, different_total_sizes_are_an_error_at_both_ends) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(4, 50, right, 7, this->comm_);
  recv.init(4, 51, left, 7, this->comm_);
  RETURN_IF_FAILED();
  for (int again = 0; again < 2; ++again) {
    step("waiting for the error on sizes that differ");
    // The error may come out of the start already, once it is known; of the wait at the latest.
    int recv_code = TypeParam::start(&recv.request);
    int send_code = TypeParam::start(&send.request);
    if (send_code == MPI_SUCCESS) send_code = TypeParam::pready_range(0, 3, send.request);
    if (send_code == MPI_SUCCESS) send_code = TypeParam::wait(&send.request, MPI_STATUS_IGNORE);
    if (recv_code == MPI_SUCCESS) recv_code = TypeParam::wait(&recv.request, MPI_STATUS_IGNORE);
    EXPECT_ERROR(send_code, MPI_ERR_TRUNCATE, "200", "204");
    EXPECT_ERROR(recv_code, MPI_ERR_TRUNCATE, "200", "204");
  }
  send.free();
  recv.free();
  this->send_.start();
  this->recv_.start();
  this->finish_epoch({0, 1, 2, 3}, 9);
}

TYPED_TEST(UseErrors, waitall_reports_each_request_in_its_status) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  recv.init(1, 9, rank(), 7, this->comm_);
  this->send_.start();
  this->recv_.start();
  this->send_.mark_all(3);
  recv.start();
  // The pair is matched from here on, so that the start of the send may report the error already.
  send.init(1, 8, rank(), 7, this->comm_);
  const int started = TypeParam::start(&send.request);
  const bool send_fails_in_wait = started == MPI_SUCCESS;
  if (send_fails_in_wait) {
    send.mark_all(1);
  } else {
    EXPECT_ERROR(started, MPI_ERR_TRUNCATE, "8 bytes", "9 bytes");
  }
  RETURN_IF_FAILED();
  typename TypeParam::Request requests[] = {this->recv_.request, recv.request, this->send_.request, send.request};
  MPI_Status statuses[4];
  step("Waitall with two requests that fail");
  const int code = TypeParam::waitall(4, requests, statuses);
  EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS) << sentence_of(code);
  EXPECT_EQ(class_of(statuses[0].MPI_ERROR), MPI_SUCCESS);
  EXPECT_EQ(class_of(statuses[1].MPI_ERROR), MPI_ERR_TRUNCATE);
  EXPECT_EQ(class_of(statuses[2].MPI_ERROR), MPI_SUCCESS);
  EXPECT_EQ(class_of(statuses[3].MPI_ERROR), send_fails_in_wait ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
  EXPECT_TRUE(this->recv_.holds_all(3));
  send.free();
  recv.free();
}

TYPED_TEST(UseErrors, waitall_waits_for_what_does_not_fail) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Sending<TypeParam> send, good_send;
  Receiving<TypeParam> recv, good_recv;
  recv.init(1, 9, rank(), 7, this->comm_);
  good_send.init(1, 100, right, 8, this->comm_);
  good_recv.init(1, 100, left, 8, this->comm_);
  recv.start();
  good_recv.start();
  send.init(1, 8, rank(), 7, this->comm_);  // the pair is matched from here on, and not before its receive has started
  RETURN_IF_FAILED();
  // When Waitall begins, the ranks that receive from one that marks late know of the failed pair, and of no arrival.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(rank() % 2 == 1 ? 200 : 50);
  while (std::chrono::steady_clock::now() < until) good_recv.arrived(0);
  good_send.start();
  good_send.mark_all(4);
  typename TypeParam::Request requests[] = {recv.request, good_recv.request, good_send.request};
  MPI_Status statuses[3];
  step("Waitall with one request that fails and one that takes long");
  const int code = TypeParam::waitall(3, requests, statuses);
  EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS) << sentence_of(code);
  EXPECT_EQ(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
  EXPECT_EQ(class_of(statuses[1].MPI_ERROR), MPI_SUCCESS);
  EXPECT_EQ(class_of(statuses[2].MPI_ERROR), MPI_SUCCESS);
  EXPECT_TRUE(good_recv.holds_all(4));
  send.free();
  recv.free();
  good_send.free();
  good_recv.free();
}

TYPED_TEST(UseErrors, completion_calls_check_their_count) {
  auto& request = this->send_.request;
  int index = 0, flag = 0, found = 0, indices[1];
  const auto expect_count_error = [](int code, const char* call) {
    EXPECT_TRUE(class_of(code) == MPI_ERR_COUNT || class_of(code) == MPI_ERR_ARG) << call << ": " << sentence_of(code);
  };
  expect_count_error(TypeParam::waitall(-1, &request, MPI_STATUSES_IGNORE), "Waitall");
  expect_count_error(TypeParam::testall(-1, &request, &flag, MPI_STATUSES_IGNORE), "Testall");
  expect_count_error(TypeParam::waitany(-1, &request, &index, MPI_STATUS_IGNORE), "Waitany");
  expect_count_error(TypeParam::testany(-1, &request, &index, &flag, MPI_STATUS_IGNORE), "Testany");
  expect_count_error(TypeParam::waitsome(-1, &request, &found, indices, MPI_STATUSES_IGNORE), "Waitsome");
  expect_count_error(TypeParam::testsome(-1, &request, &found, indices, MPI_STATUSES_IGNORE), "Testsome");
  expect_count_error(TypeParam::startall(-1, &request), "Startall");
}

/// Null is how one ignores a status in some MPIs only.
TYPED_TEST(UseErrors, a_null_status_is_refused_where_it_does_not_mean_ignore) {
  MPI_Status *const none = nullptr, *const no_status = MPI_STATUS_IGNORE, *const no_statuses = MPI_STATUSES_IGNORE;
  if (none == no_status && none == no_statuses) GTEST_SKIP() << "this MPI's MPI_STATUS_IGNORE is null";
  auto &send = this->send_.request, &recv = this->recv_.request;
  typename TypeParam::Request requests[] = {send, recv, TypeParam::null()};
  int index = 0, flag = 0, found = 0, indices[3];
  const auto expect_refusals = [&] {
    EXPECT_ERROR(TypeParam::wait(&send, none), MPI_ERR_ARG, "Wait", "status is null", "MPI_STATUS_IGNORE");
    EXPECT_ERROR(TypeParam::test(&recv, &flag, none), MPI_ERR_ARG, "Test", "status is null", "MPI_STATUS_IGNORE");
    EXPECT_ERROR(TypeParam::get_status(recv, &flag, none), MPI_ERR_ARG, "get_status", "status is null");
    EXPECT_ERROR(TypeParam::waitany(3, requests, &index, none), MPI_ERR_ARG, "Waitany", "status is null");
    EXPECT_ERROR(TypeParam::testany(3, requests, &index, &flag, none), MPI_ERR_ARG, "Testany", "status is null");
    EXPECT_ERROR(TypeParam::waitall(3, requests, none), MPI_ERR_ARG, "Waitall", "statuses is null");
    EXPECT_ERROR(TypeParam::testall(3, requests, &flag, none), MPI_ERR_ARG, "Testall", "MPI_STATUSES_IGNORE");
    EXPECT_ERROR(TypeParam::waitsome(3, requests, &found, indices, none), MPI_ERR_ARG, "Waitsome", "statuses is null");
    EXPECT_ERROR(TypeParam::testsome(3, requests, &found, indices, none), MPI_ERR_ARG, "Testsome", "statuses is null");
  };
  expect_refusals();  // of inactive requests
  this->recv_.start();
  this->send_.start();
  expect_refusals();  // where a wait would block
  this->send_.mark_all(1);
  expect_refusals();  // where it would complete
  EXPECT_OK(TypeParam::test(&recv, &flag, MPI_STATUS_IGNORE));
  if (flag == 0) this->recv_.wait_for(1);
  EXPECT_TRUE(this->recv_.holds_all(1));
  this->send_.wait();
}

int handler_calls = 0;
int handler_code = MPI_SUCCESS;
std::string handler_sentence;

void count_errors(MPI_Comm*, int* code, ...) {
  ++handler_calls;
  handler_code = *code;
  handler_sentence = sentence_of(*code);
}

TYPED_TEST(UseErrors, the_communicators_own_handler_hears_of_an_error_once) {
  MPI_Errhandler counting;
  MPI_Comm_create_errhandler(count_errors, &counting);
  MPI_Comm_set_errhandler(this->comm_, counting);
  MPI_Errhandler_free(&counting);
  handler_calls = 0;

  auto request = TypeParam::null();
  int data[4] = {};
  int code = TypeParam::psend_init(data, -3, 1, MPI_INT, 0, 1, this->comm_, MPI_INFO_NULL, &request);
  EXPECT_EQ(handler_calls, 1);
  EXPECT_EQ(code, handler_code);
  EXPECT_NE(handler_sentence.find("-3"), std::string::npos) << handler_sentence;

  code = TypeParam::pready(9, this->send_.request);
  EXPECT_NE(code, MPI_SUCCESS);
  EXPECT_EQ(handler_calls, 2);
  EXPECT_EQ(code, handler_code);
  code = TypeParam::free(&this->send_.request);
  EXPECT_OK(code);
  EXPECT_EQ(handler_calls, 2);
}

TYPED_TEST(UseErrors, each_thread_keeps_the_sentence_of_its_own_last_error) {
  this->send_.start();
  this->recv_.start();
  const int own = TypeParam::pready(71, this->send_.request);
  std::thread([&] { EXPECT_ERROR(TypeParam::pready(72, this->send_.request), MPI_ERR_ARG, "72"); }).join();
  EXPECT_ERROR(own, MPI_ERR_ARG, "71");
  this->finish_epoch({0, 1, 2, 3}, 1);
}

}  // namespace
}  // namespace partita::test
