// MPI_Waitall and MPI_Testall on arrays that mix Partita's requests with the MPI's own (MPI-4, section 3.7.5).
#include <array>

#include "dropin_ring.hpp"

namespace partita::test {
namespace {

/// One request of each kind that can stand in an array.
class MixedArray {
 public:
  enum Place { precv, null, irecv, psend, inactive, isend, persistent_recv, persistent_send, inactive_ours, places };

  MixedArray() {
    EXPECT_EQ(MPI_SUCCESS,
              MPI_Recv_init(&in_[0], 1, MPI_INT, ring.previous(), 11, MPI_COMM_WORLD, &requests[persistent_recv]));
    EXPECT_EQ(MPI_SUCCESS,
              MPI_Send_init(&out_[0], 1, MPI_INT, ring.next(), 11, MPI_COMM_WORLD, &requests[persistent_send]));
    EXPECT_EQ(MPI_SUCCESS,
              MPI_Recv_init(&in_[2], 1, MPI_INT, ring.previous(), 13, MPI_COMM_WORLD, &requests[inactive]));
    requests[psend] = ring.send;
    requests[precv] = ring.recv;
    requests[inactive_ours] = idle_.recv;
  }
  ~MixedArray() {
    for (const Place place : {persistent_recv, persistent_send, inactive}) MPI_Request_free(&requests[place]);
  }
  MixedArray(const MixedArray&) = delete;
  MixedArray& operator=(const MixedArray&) = delete;

  void start() {
    ring.fill();
    out_ = {rank() + 100, rank() + 200};
    in_ = {-1, -1, -1};
    std::array started = {requests[persistent_recv], requests[precv], requests[persistent_send], requests[psend]};
    EXPECT_EQ(MPI_SUCCESS, MPI_Startall(static_cast<int>(started.size()), started.data()));
    EXPECT_EQ(MPI_SUCCESS, MPI_Irecv(&in_[1], 1, MPI_INT, ring.previous(), 12, MPI_COMM_WORLD, &requests[irecv]));
    EXPECT_EQ(MPI_SUCCESS, MPI_Isend(&out_[1], 1, MPI_INT, ring.next(), 12, MPI_COMM_WORLD, &requests[isend]));
  }

  void expect_completed(const MPI_Status* statuses) {
    EXPECT_EQ(MPI_REQUEST_NULL, requests[irecv]);
    EXPECT_EQ(MPI_REQUEST_NULL, requests[isend]);
    EXPECT_EQ(ring.send, requests[psend]);
    EXPECT_EQ(ring.recv, requests[precv]);
    EXPECT_NE(MPI_REQUEST_NULL, requests[inactive]);
    EXPECT_EQ(ring.previous() + 100, in_[0]);
    EXPECT_EQ(ring.previous() + 200, in_[1]);
    ring.expect_arrived();
    if (statuses == MPI_STATUSES_IGNORE) return;
    ring.expect_received(statuses[precv]);
    EXPECT_EQ(11, statuses[persistent_recv].MPI_TAG);
    EXPECT_EQ(12, statuses[irecv].MPI_TAG);
    EXPECT_EQ(ring.previous(), statuses[irecv].MPI_SOURCE);
    for (const Place place : {null, inactive, inactive_ours}) expect_empty(statuses[place]);
  }

  Ring ring;
  std::array<MPI_Request, places> requests = make_null();

 private:
  static std::array<MPI_Request, places> make_null() {
    std::array<MPI_Request, places> all;
    all.fill(MPI_REQUEST_NULL);
    return all;
  }

  Ring idle_{3, 7, MPI_COMM_WORLD, 6};
  std::array<int, 2> out_{};
  std::array<int, 3> in_{};
};

constexpr int count = MixedArray::places;

TEST(DropinWaitall, completes_every_kind_of_request_in_one_array) {
  MixedArray mixed;
  for (int epoch = 0; epoch < 5; ++epoch) {
    mixed.start();
    mixed.ring.mark_all();
    std::array<MPI_Status, count> statuses{};
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(count, mixed.requests.data(), statuses.data()));
    mixed.expect_completed(statuses.data());
  }
}

TEST(DropinWaitall, works_without_statuses) {
  MixedArray mixed;
  mixed.start();
  mixed.ring.mark_all();
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(count, mixed.requests.data(), MPI_STATUSES_IGNORE));
  mixed.expect_completed(MPI_STATUSES_IGNORE);
}

TEST(DropinWaitall, says_success_in_the_error_fields) {
  MixedArray mixed;
  mixed.start();
  mixed.ring.mark_all();
  std::array<MPI_Status, count> statuses{};
  for (auto& status : statuses) status.MPI_ERROR = 4711;
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(count, mixed.requests.data(), statuses.data()));
  for (const auto& status : statuses) EXPECT_EQ(MPI_SUCCESS, status.MPI_ERROR);
}

TEST(DropinWaitall, completes_requests_of_partita_alone) {
  Ring ring;
  ring.start();
  ring.mark_all();
  std::array requests = {ring.send, ring.recv};
  std::array<MPI_Status, 2> statuses{};
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), statuses.data()));
  ring.expect_arrived();
  ring.expect_received(statuses[1]);
}

TEST(DropinWaitall, completes_arrays_larger_than_its_stack_buffers) {
  constexpr int others = 1000;
  Ring ring;
  ring.start();
  std::vector<MPI_Request> requests;
  std::vector<int> in(others, -1);
  std::vector<int> out(others);
  for (int i = 0; i < others; ++i) {
    if (i == others / 2) requests.insert(requests.end(), {ring.recv, ring.send, MPI_REQUEST_NULL});
    out[static_cast<std::size_t>(i)] = i;
    requests.resize(requests.size() + 2, MPI_REQUEST_NULL);
    MPI_Irecv(&in[static_cast<std::size_t>(i)], 1, MPI_INT, ring.previous(), i, MPI_COMM_WORLD,
              &requests[requests.size() - 2]);
    MPI_Isend(&out[static_cast<std::size_t>(i)], 1, MPI_INT, ring.next(), i, MPI_COMM_WORLD,
              &requests[requests.size() - 1]);
  }
  ring.mark_all();
  std::vector<MPI_Status> statuses(requests.size());
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data()));
  ring.expect_arrived();
  ring.expect_received(statuses[others]);
  EXPECT_EQ(out, in);
  EXPECT_EQ(others - 1, statuses[statuses.size() - 2].MPI_TAG);
}

TEST(DropinWaitall, of_null_and_inactive_requests_returns_at_once) {
  Ring ring;
  std::array requests = {MPI_REQUEST_NULL, ring.send, ring.recv};
  std::array<MPI_Status, 3> statuses{};
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(3, requests.data(), statuses.data()));
  for (const auto& status : statuses) expect_empty(status);
}

TEST(DropinTestall, completes_nothing_until_everything_is_complete) {
  MixedArray mixed;
  mixed.start();
  std::array<MPI_Status, count> statuses{};
  int flag = 1;
  for (int look = 0; look < 200; ++look) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Testall(count, mixed.requests.data(), &flag, statuses.data()));
    ASSERT_EQ(0, flag) << "though no partition was marked";
    ASSERT_NE(MPI_REQUEST_NULL, mixed.requests[MixedArray::irecv]);
    ASSERT_NE(MPI_REQUEST_NULL, mixed.requests[MixedArray::isend]);
  }
  harness_barrier();
  mixed.ring.mark_all();
  while (flag == 0) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Testall(count, mixed.requests.data(), &flag, statuses.data()));
  }
  mixed.expect_completed(statuses.data());
}

TEST(DropinTestall, waits_for_the_requests_of_the_mpi_too) {
  Ring ring;
  ring.start();
  ring.mark_all();
  int in = -1;
  std::array requests = {ring.send, MPI_REQUEST_NULL, ring.recv};
  MPI_Irecv(&in, 1, MPI_INT, ring.previous(), 21, MPI_COMM_WORLD, &requests[1]);
  int flag = 1;
  for (int look = 0; look < 200; ++look) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Testall(3, requests.data(), &flag, MPI_STATUSES_IGNORE));
    ASSERT_EQ(0, flag) << "though the message was not sent";
  }
  harness_barrier();
  const int out = rank();
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_Isend(&out, 1, MPI_INT, ring.next(), 21, MPI_COMM_WORLD, &sending);
  while (flag == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Testall(3, requests.data(), &flag, MPI_STATUSES_IGNORE));
  EXPECT_EQ(MPI_REQUEST_NULL, requests[1]);
  EXPECT_EQ(ring.previous(), in);
  ring.expect_arrived();
  MPI_Wait(&sending, MPI_STATUS_IGNORE);
}

TEST(DropinTestall, of_inactive_requests_is_true) {
  Ring ring;
  std::array requests = {MPI_REQUEST_NULL, ring.send, ring.recv};
  std::array<MPI_Status, 3> statuses{};
  int flag = 0;
  ASSERT_EQ(MPI_SUCCESS, MPI_Testall(3, requests.data(), &flag, statuses.data()));
  EXPECT_EQ(1, flag);
  for (const auto& status : statuses) expect_empty(status);
}

}  // namespace
}  // namespace partita::test
