// The C++ API: what its objects own, what they throw, and that they do what the C calls do.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.hpp>

#include <array>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace partita::test {
namespace {

template <class Stream>
concept IsStream = requires(Stream stream) { queue::cuda(stream); };
struct StreamOfCuda;
static_assert(IsStream<StreamOfCuda*> && IsStream<void*> && IsStream<std::nullptr_t>);
static_assert(!IsStream<StreamOfCuda**>, "a stream's address is no stream");

static_assert(std::is_nothrow_move_constructible_v<request> && std::is_nothrow_move_assignable_v<request>);
static_assert(!std::is_copy_constructible_v<request> && !std::is_copy_assignable_v<request>);
static_assert(std::is_nothrow_move_constructible_v<queue> && std::is_nothrow_move_assignable_v<queue>);
static_assert(!std::is_copy_constructible_v<queue> && !std::is_copy_assignable_v<queue>);
static_assert(!std::is_convertible_v<const std::vector<request>&, request_span>, "calls change requests");

/// Each rank sends to its right neighbour and receives from its left one.
class CppApi : public testing::Test {
 protected:
  static int right() { return (rank() + 1) % ranks(); }
  static int left() { return (rank() + ranks() - 1) % ranks(); }

  /// A receive and a send of `in.size()` and `out.size()` ints, not matched yet.
  std::vector<request> ring(std::vector<int>& in, const std::vector<int>& out, int tag) const {
    std::vector<request> requests;
    requests.push_back(world_.recv_init(in.data(), static_cast<MPI_Count>(in.size()), MPI_INT, left(), tag));
    requests.push_back(world_.send_init(out.data(), static_cast<MPI_Count>(out.size()), MPI_INT, right(), tag));
    return requests;
  }
  std::vector<request> matched_ring(std::vector<int>& in, const std::vector<int>& out, int tag) const {
    std::vector<request> requests = ring(in, out, tag);
    matchall(requests);
    return requests;
  }
  /// A send to nobody, which is complete whenever it starts.
  request to_nobody() const { return world_.send_init(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0); }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  communicator world_{MPI_COMM_WORLD};
};

TEST_F(CppApi, a_communicator_knows_its_rank_and_size) {
  EXPECT_EQ(rank(), world_.rank());
  EXPECT_EQ(ranks(), world_.size());
  EXPECT_EQ(MPI_COMM_WORLD, world_.handle());
}

TEST_F(CppApi, a_communicator_is_made_known_and_its_errors_are_thrown) {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_ARE_FATAL);
  const communicator known(own);
  known.make_known();
  known.throw_errors();
  EXPECT_TRUE(throws([&] { (void)known.send_init(nullptr, 0, MPI_INT, ranks(), 0); }, MPI_ERR_RANK, {"Send_init"}));
  request made = known.send_init(nullptr, 0, MPI_INT, right(), 0);
  made.free();
  MPI_Comm_free(&own);
}

TEST_F(CppApi, moved_requests_keep_what_they_own) {
  request made = to_nobody();
  const Partita_Request handle = made.handle();
  request second = std::move(made);
  EXPECT_FALSE(made);  // NOLINT(bugprone-use-after-move): it is null
  EXPECT_EQ(handle, second.handle());
  request third;
  third = std::move(second);
  EXPECT_EQ(handle, third.handle());
  request& itself = third;
  third = std::move(itself);
  EXPECT_EQ(handle, third.handle());
  third.match();
  EXPECT_TRUE(third.is_matched());
  third = to_nobody();  // what it owned is freed: else Partita_Finalize finds it
  EXPECT_TRUE(third);
  EXPECT_FALSE(third.is_matched());
}

TEST_F(CppApi, a_released_request_is_the_callers) {
  request made = to_nobody();
  Partita_Request handle = made.release();
  EXPECT_FALSE(made);
  made = request(handle);
  EXPECT_EQ(handle, made.handle());
  made.free();
  EXPECT_FALSE(made);
}

int errors_of_objects = 0;
void count_error_of_object(MPI_Comm*, int*, ...) {
  ++errors_of_objects;
}

TEST_F(CppApi, an_active_request_outlives_its_object_and_the_handler_hears) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::vector<request> requests = matched_ring(in, out, 1);
  requests[0].start();
  Partita_Request kept = requests[0].handle();
  MPI_Errhandler counting = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_error_of_object, &counting);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting);
  MPI_Errhandler_free(&counting);
  errors_of_objects = 0;
  harness_barrier();  // no rank's send has started
  requests[0] = request();
  EXPECT_EQ(1, errors_of_objects);
  harness_barrier();
  requests[1].start();
  requests[0] = request(kept);
  waitall(requests);
  EXPECT_EQ(left(), in[0]);
}

TEST_F(CppApi, every_kind_of_send_arrives) {
  std::array<int, 3> in{}, out{rank(), rank() + 100, rank() + 200};
  std::array<request, 6> requests;
  for (int i = 0; i < 3; ++i) {
    requests[static_cast<std::size_t>(i)] = world_.recv_init(&in[static_cast<std::size_t>(i)], 1, MPI_INT, left(), i);
  }
  requests[3] = world_.send_init(&out[0], 1, MPI_INT, right(), 0);
  requests[4] = world_.rsend_init(&out[1], 1, MPI_INT, right(), 1);
  requests[5] = world_.ssend_init(&out[2], 1, MPI_INT, right(), 2);
  matchall(requests);
  startall(std::span(requests).first(3));
  harness_barrier();
  startall(request_span(&requests[3], 3));
  std::array<MPI_Status, 6> statuses{};
  waitall(requests, statuses.data());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(left() + 100 * i, in[static_cast<std::size_t>(i)]);
    EXPECT_EQ(left(), statuses[static_cast<std::size_t>(i)].MPI_SOURCE);
    EXPECT_EQ(i, statuses[static_cast<std::size_t>(i)].MPI_TAG);
  }
}

TEST_F(CppApi, partitions_are_marked_and_awaited) {
  std::vector<int> in(6), out(6);
  request received = world_.precv_init(in.data(), 3, 2, MPI_INT, left(), 2);
  request sent = world_.psend_init(out.data(), 6, 1, MPI_INT, right(), 2);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::iota(out.begin(), out.end(), 100 * rank() + 10 * epoch);
    received.start();
    sent.start();
    sent.pbuf_prepare();
    sent.pready(5);
    sent.pready_range(0, 1);
    const std::array others{4, 2, 3};
    sent.pready_list(3, others.data());
    while (!received.parrived(2)) {
    }
    EXPECT_EQ(100 * left() + 10 * epoch + 5, in[5]);
    MPI_Status status;
    while (!received.test(&status)) {
    }
    int count = 0;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(6, count);
    sent.wait();
  }
}

TEST_F(CppApi, both_sides_of_a_group_are_prepared_together) {
  std::vector<int> in(2), out(2, rank());
  std::array<request, 2> requests{world_.precv_init(in.data(), 1, 2, MPI_INT, left(), 3),
                                  world_.psend_init(out.data(), 2, 1, MPI_INT, right(), 3)};
  startall(requests);
  pbuf_prepareall(requests);
  requests[1].pready_range(0, 1);
  while (!testall(requests)) {
  }
  EXPECT_EQ(std::vector<int>(2, left()), in);
}

TEST_F(CppApi, an_info_object_reaches_a_partitioned_request) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_link", "carrier-pigeon");
  int cell = 0;
  EXPECT_TRUE(throws([&] { (void)world_.psend_init(&cell, 1, 1, MPI_INT, right(), 4, info); }, MPI_ERR_INFO_VALUE,
                     {"Psend_init", "carrier-pigeon"}));
  EXPECT_TRUE(throws([&] { (void)world_.precv_init(&cell, 1, 1, MPI_INT, left(), 4, info); }, MPI_ERR_INFO_VALUE,
                     {"Precv_init", "carrier-pigeon"}));
  MPI_Info_free(&info);
}

TEST_F(CppApi, matching_without_blocking_ends_in_a_null_request) {
  std::vector<int> in(1), in_other(1);
  const std::vector<int> out(1, rank());
  std::vector<request> group = ring(in, out, 5), single = ring(in_other, out, 6);
  EXPECT_FALSE(group[0].is_matched());
  request matching = imatchall(group);
  std::array<request, 2> one_by_one{single[0].imatch(), single[1].imatch()};
  matching.wait();
  EXPECT_FALSE(matching);
  waitall(one_by_one);
  EXPECT_FALSE(one_by_one[0] || one_by_one[1]);
  for (const auto* requests : {&group, &single}) {
    for (const request& each : *requests) EXPECT_TRUE(each.is_matched());
  }
}

TEST_F(CppApi, what_a_host_queue_holds_runs_in_order) {
  constexpr int epochs = 20;
  std::vector<int> in(1), out(1), passed(1);
  std::vector<request> around = matched_ring(in, out, 7), on = matched_ring(passed, in, 8);
  queue order = queue::host();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    // What has arrived by the first wait is what the second send takes: each value goes two ranks far.
    out[0] = 1000 * rank() + epoch;
    order.enqueue_startall(around);
    order.enqueue_waitall(around);
    EXPECT_EQ(1000 * left() + epoch, in[0]);
    order.enqueue_start(on[0]);
    order.enqueue_start(on[1]);
    order.enqueue_wait(on[0]);
    order.enqueue_wait(on[1]);
    EXPECT_EQ(1000 * ((left() + ranks() - 1) % ranks()) + epoch, passed[0]);
  }
  order.wait();
  order.free();
  EXPECT_FALSE(order);
}

TEST_F(CppApi, kernels_are_given_the_completion_of_a_message) {
  request sent = to_nobody();
  EXPECT_THROW(static_cast<void>(sent.completion()), error) << "it is not matched";
  sent.match();
  EXPECT_EQ(PARTITA_PREQUEST_NOBODY, sent.completion().origin);
}

TEST_F(CppApi, moved_queues_keep_what_they_own) {
  queue made = queue::host();
  const Partita_Queue handle = made.handle();
  queue second = std::move(made);
  EXPECT_FALSE(made);  // NOLINT(bugprone-use-after-move): it is null
  queue third = queue::host();
  Partita_Queue const replaced = third.handle();
  third = std::move(second);
  EXPECT_EQ(handle, third.handle());
  EXPECT_ERROR(Partita_Queue_wait(replaced), MPI_ERR_ARG, "freed already");
  request sent = to_nobody();
  sent.match();
  third.enqueue_start(sent);
  third.enqueue_wait(sent);
  queue fourth(std::move(third));
  fourth.wait();
  Partita_Queue released = fourth.release();
  EXPECT_FALSE(fourth);
  EXPECT_OK(Partita_Queue_free(&released));
}

/// They end with the process, behind Partita_Finalize and MPI_Finalize, and stand for what is no more.
TEST_F(CppApi, what_outlives_the_runtime_is_left_alone) {
  static request late_request = to_nobody();
  static queue late_queue = queue::host();
  Partita_Request freed_request = late_request.handle();
  Partita_Queue freed_queue = late_queue.handle();
  EXPECT_TRUE(is_running());
  EXPECT_OK(Partita_Request_free(&freed_request));
  EXPECT_OK(Partita_Queue_free(&freed_queue));
}

TEST_F(CppApi, an_error_has_the_class_and_the_sentence_of_the_call) {
  request none;
  EXPECT_TRUE(throws([&] { none.start(); }, MPI_ERR_REQUEST, {"Partita_Start"}));
  EXPECT_TRUE(throws([&] { none.match(); }, MPI_ERR_REQUEST, {"Partita_Match"}));
  request sent = to_nobody();
  EXPECT_TRUE(throws([&] { sent.start(); }, MPI_ERR_REQUEST, {"Partita_Start", "match"}));
  EXPECT_TRUE(throws([&] { sent.pready(0); }, MPI_ERR_REQUEST, {"Partita_Pready"}));
  EXPECT_TRUE(throws([&] { (void)world_.recv_init(nullptr, 0, MPI_INT, left(), -5); }, MPI_ERR_TAG, {"tag", "-5"}));
  EXPECT_TRUE(throws([] { (void)communicator(MPI_COMM_NULL).rank(); }, MPI_ERR_COMM, {}));
  EXPECT_TRUE(throws([] { queue().wait(); }, MPI_ERR_ARG, {"Queue_wait", "PARTITA_QUEUE_NULL"}));
  EXPECT_NO_THROW(check(MPI_SUCCESS));
}

TEST_F(CppApi, of_a_group_with_one_that_may_not_start_none_is_enqueued) {
  std::vector<int> in(1);
  const std::vector<int> out(1, rank());
  std::vector<request> requests = matched_ring(in, out, 9);
  requests.push_back(to_nobody());  // not matched
  queue order = queue::host();
  EXPECT_TRUE(throws([&] { order.enqueue_startall(requests); }, MPI_ERR_REQUEST, {"Enqueue_startall", "match"}));
  EXPECT_TRUE(throws([&] { order.enqueue_wait(requests[0]); }, MPI_ERR_REQUEST, {"Enqueue_wait"}));
  requests.pop_back();
  order.enqueue_startall(requests);
  EXPECT_TRUE(throws([&] { requests[0].wait(); }, MPI_ERR_REQUEST, {"Partita_Wait", "queue"}));
  EXPECT_TRUE(throws([&] { order.free(); }, MPI_ERR_REQUEST, {"Queue_free", "no wait"}));
  EXPECT_TRUE(order);
  order.enqueue_waitall(requests);
  EXPECT_EQ(left(), in[0]);
}

TEST_F(CppApi, a_late_error_is_thrown_when_the_queue_is_freed_and_the_queue_is_gone) {
  std::vector<int> in(1);
  const std::vector<int> out(1);
  std::vector<request> requests = matched_ring(in, out, 10);
  requests[1].free();
  queue order = queue::host();
  EXPECT_NO_THROW(order.enqueue_start(requests[0]));
  EXPECT_NO_THROW(order.enqueue_wait(requests[0]));
  EXPECT_TRUE(throws([&] { order.free(); }, MPI_ERR_REQUEST, {"Queue_free", "freed its request"}));
  EXPECT_FALSE(order);
}

TEST_F(CppApi, the_statuses_of_a_group_tell_what_failed) {
  std::vector<int> in(1), in_failing(1);
  const std::vector<int> out(1, rank()), longer(2);
  std::vector<request> good = ring(in, out, 11), failing = ring(in_failing, longer, 12);
  std::array<request, 2> matchings{imatchall(good), imatchall(failing)};
  std::array<MPI_Status, 2> statuses{};
  EXPECT_TRUE(throws([&] { waitall(matchings, statuses.data()); }, MPI_ERR_IN_STATUS, {}));
  EXPECT_EQ(MPI_SUCCESS, statuses[0].MPI_ERROR);
  EXPECT_EQ(MPI_ERR_TRUNCATE, error(statuses[1].MPI_ERROR).error_class());
  EXPECT_NE(std::string::npos, std::string(error(statuses[1].MPI_ERROR).what()).find("8 bytes"));
}

/// Groups whose statuses lie on the stack, and larger ones.
TEST_F(CppApi, without_statuses_the_error_of_what_failed_in_a_group_is_thrown) {
  std::vector<int> in(1);
  const std::vector<int> longer(2);
  int tag = 13;
  for (const std::size_t size : {2U, 16U, 17U, 100U}) {
    std::vector<request> failing = ring(in, longer, tag++), waited(size), tested(size);
    waited.back() = imatchall(failing);
    EXPECT_TRUE(throws([&] { waitall(waited); }, MPI_ERR_TRUNCATE, {"8 bytes"})) << size;
    failing = ring(in, longer, tag++);
    tested.back() = imatchall(failing);
    const auto test_until_complete = [&] {
      while (!testall(tested)) {
      }
    };
    EXPECT_TRUE(throws(test_until_complete, MPI_ERR_TRUNCATE, {"8 bytes"})) << size;
  }
  std::array<request, 2> with_a_start{to_nobody(), to_nobody()};
  matchall(with_a_start);
  queue order = queue::host();
  order.enqueue_start(with_a_start[1]);
  EXPECT_TRUE(throws([&] { waitall(with_a_start); }, MPI_ERR_REQUEST, {"Partita_Waitall", "queue"}));
  order.enqueue_wait(with_a_start[1]);
  EXPECT_NO_THROW(waitall(with_a_start));
}

TEST_F(CppApi, a_runtime_that_runs_already_is_not_ended) {
  {
    runtime inner;
    EXPECT_NO_THROW(inner.finalize());
    EXPECT_TRUE(is_running());
    const runtime another;
  }
  ASSERT_TRUE(is_running());
}

TEST_F(CppApi, a_queue_of_a_stream_works_or_says_why_there_is_none) {
  try {
    queue::cuda(nullptr).free();  // the default stream
  } catch (const error& thrown) {
    EXPECT_EQ(MPI_ERR_OTHER, thrown.error_class());
    EXPECT_NE(std::string::npos, std::string(thrown.what()).find("CUDA")) << thrown.what();
  }
}

}  // namespace
}  // namespace partita::test
