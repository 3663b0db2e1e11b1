// MPI_Waitany, MPI_Testany, MPI_Waitsome and MPI_Testsome on arrays that mix both kinds of requests (MPI-4,
// section 3.7.5).
#include <algorithm>
#include <array>

#include "dropin_ring.hpp"

namespace partita::test {
namespace {

/// A receive of the MPI's from the previous rank that the next one answers when told to.
class Token {
 public:
  Token(const Ring& ring, int tag) : next_(ring.next()), tag_(tag) {
    MPI_Irecv(&in_, 1, MPI_INT, ring.previous(), tag, MPI_COMM_WORLD, &receiving);
  }
  ~Token() { MPI_Wait(&sending_, MPI_STATUS_IGNORE); }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;

  void pass() { MPI_Isend(&out_, 1, MPI_INT, next_, tag_, MPI_COMM_WORLD, &sending_); }

  MPI_Request receiving = MPI_REQUEST_NULL;

 private:
  int next_;
  int tag_;
  int in_ = -1;
  int out_ = 1;
  MPI_Request sending_ = MPI_REQUEST_NULL;
};

TEST(DropinWaitany, returns_each_request_once_and_then_undefined) {
  Ring ring;
  ring.start();
  Token token(ring, 31);
  std::array requests = {MPI_REQUEST_NULL, ring.recv, token.receiving};

  token.pass();
  int index = -1;
  MPI_Status status{};
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(3, requests.data(), &index, &status));
  EXPECT_EQ(2, index);
  EXPECT_EQ(31, status.MPI_TAG);
  EXPECT_EQ(MPI_REQUEST_NULL, requests[2]);

  harness_barrier();
  ring.mark_all();
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(3, requests.data(), &index, &status));
  EXPECT_EQ(1, index);
  EXPECT_EQ(ring.recv, requests[1]);
  ring.expect_received(status);
  ring.expect_arrived();

  ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(3, requests.data(), &index, &status));
  EXPECT_EQ(MPI_UNDEFINED, index);
  expect_empty(status);
  MPI_Wait(&ring.send, MPI_STATUS_IGNORE);
}

TEST(DropinWaitany, waits_for_the_mpi_while_requests_of_partita_are_pending) {
  Ring ring;
  ring.start();
  Token token(ring, 32);
  std::array requests = {ring.recv, token.receiving};
  harness_barrier();
  token.pass();
  int index = -1;
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(1, index);
  harness_barrier();
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

TEST(DropinTestany, is_false_while_requests_are_pending_and_true_when_none_is_active) {
  Ring ring;
  ring.start();
  Token token(ring, 33);
  std::array requests = {ring.recv, token.receiving, MPI_REQUEST_NULL};
  int index = -1;
  int flag = 1;
  MPI_Status status{};
  for (int look = 0; look < 100; ++look) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Testany(3, requests.data(), &index, &flag, &status));
    ASSERT_EQ(0, flag);
    ASSERT_EQ(MPI_UNDEFINED, index);
  }
  harness_barrier();
  ring.mark_all();
  while (flag == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Testany(3, requests.data(), &index, &flag, &status));
  EXPECT_EQ(0, index);
  ring.expect_received(status);
  harness_barrier();
  token.pass();
  flag = 0;
  while (flag == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Testany(3, requests.data(), &index, &flag, &status));
  EXPECT_EQ(1, index);
  EXPECT_EQ(33, status.MPI_TAG);

  ASSERT_EQ(MPI_SUCCESS, MPI_Testany(3, requests.data(), &index, &flag, &status));
  EXPECT_EQ(1, flag);
  EXPECT_EQ(MPI_UNDEFINED, index);
  expect_empty(status);
  MPI_Wait(&ring.send, MPI_STATUS_IGNORE);
}

/// Calls `some` until it says that nothing is active, and returns the indices in the order of completion.
template <class Some>
std::vector<int> collect(std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses, Some some) {
  std::vector<int> all;
  while (true) {
    int done = -1;
    std::vector<int> indices(requests.size(), -1);
    std::vector<MPI_Status> found(requests.size());
    EXPECT_EQ(MPI_SUCCESS,
              some(static_cast<int>(requests.size()), requests.data(), &done, indices.data(), found.data()));
    if (done == MPI_UNDEFINED) return all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(done); ++i) {
      all.push_back(indices[i]);
      statuses[static_cast<std::size_t>(indices[i])] = found[i];
    }
  }
}

template <class Some>
void expect_each_once(Some some) {
  Ring first;
  Ring second(2, 50, MPI_COMM_WORLD, 9);
  Token token(first, 34);
  Token other_token(first, 35);
  first.start();
  second.start();
  std::vector requests = {first.recv, token.receiving, MPI_REQUEST_NULL, second.send, other_token.receiving,
                          first.send, second.recv};
  first.mark_all();
  token.pass();
  second.mark_all();
  other_token.pass();
  std::vector<MPI_Status> statuses(requests.size());
  auto completed = collect(requests, statuses, some);
  std::sort(completed.begin(), completed.end());
  EXPECT_EQ((std::vector{0, 1, 3, 4, 5, 6}), completed);
  first.expect_received(statuses[0]);
  second.expect_received(statuses[6]);
  EXPECT_EQ(34, statuses[1].MPI_TAG);
  EXPECT_EQ(35, statuses[4].MPI_TAG);
  first.expect_arrived();
  second.expect_arrived();
}

TEST(DropinWaitsome, reports_each_completion_once_and_then_undefined) {
  expect_each_once(MPI_Waitsome);
}

TEST(DropinTestsome, reports_each_completion_once_and_then_undefined) {
  expect_each_once(MPI_Testsome);
}

TEST(DropinTestsome, is_zero_while_requests_are_pending) {
  Ring ring;
  ring.start();
  std::array requests = {ring.recv, ring.send};
  std::array<int, 2> indices{};
  for (int look = 0; look < 100; ++look) {
    int done = -1;
    ASSERT_EQ(MPI_SUCCESS, MPI_Testsome(2, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
    ASSERT_EQ(0, done);
  }
  harness_barrier();
  ring.mark_all();
  ring.finish();
}

}  // namespace
}  // namespace partita::test
