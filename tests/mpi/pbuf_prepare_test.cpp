// Pbuf_prepare: on a send it waits for the receiver's start, on a receive for the match.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

int prepare(Partita_Request request) {
  return Partita_Pbuf_prepare(request);
}
int prepare(MPI_Request request) {
  return MPIX_Pbuf_prepare(request);
}
int prepare_all(int count, Partita_Request requests[]) {
  return Partita_Pbuf_prepareall(count, requests);
}
int prepare_all(int count, MPI_Request requests[]) {
  return MPIX_Pbuf_prepareall(count, requests);
}

/// One clock for all ranks of a node.
std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// On link `mpi` the sender waits for the match alone, since the MPI keeps early messages.
bool sees_starts() {
  const char* link = std::getenv("PARTITA_LINK");
  return link == nullptr || std::string(link) != "mpi";
}

template <class Face>
class PbufPrepare : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks() != 2) GTEST_SKIP() << "needs two ranks";
  }
  static void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  /// Rank 1 tells when it did what rank 0 waited for until `returned_ns`.
  static void expect_after(std::int64_t returned_ns) {
    std::int64_t done_ns = 0;
    PMPI_Recv(&done_ns, 1, MPI_INT64_T, 1, 0, harness_comm(), MPI_STATUS_IGNORE);
    EXPECT_GE(returned_ns, done_ns) << "it came back before the other side had come so far";
  }
  static void tell(std::int64_t done_ns) { PMPI_Send(&done_ns, 1, MPI_INT64_T, 0, 0, harness_comm()); }
};

TYPED_TEST_SUITE(PbufPrepare, Faces, FaceNames);

TYPED_TEST(PbufPrepare, a_send_waits_for_the_start_of_the_receive_in_every_epoch) {
  for (const std::int64_t partition_bytes : {8, 10000, 400000}) {
    SCOPED_TRACE(std::to_string(partition_bytes) + " bytes a partition");
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    if (rank() == 0) send.init(4, partition_bytes, 1, 3);
    if (rank() == 1) recv.init(2, 2 * partition_bytes, 0, 3);
    for (std::uint64_t key = 1; key <= 3; ++key) {
      RETURN_IF_FAILED();
      if (rank() == 0) {
        send.start();
        step("Pbuf_prepare of the send");
        ASSERT_OK(prepare(send.request));
        const std::int64_t returned_ns = now_ns();
        if (sees_starts()) this->expect_after(returned_ns);
        send.mark_all(key);
        send.wait();
      } else {
        this->nap();
        if (sees_starts()) this->tell(now_ns());
        recv.start();
        recv.wait_for(key);
      }
    }
    if (rank() == 0) send.free();
    if (rank() == 1) recv.free();
  }
}

TYPED_TEST(PbufPrepare, a_send_waits_for_its_match) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 0) {
    send.init(4, 100, 1, 3);
    send.start();
    ASSERT_OK(prepare(send.request));
    this->expect_after(now_ns());
    send.mark_all(1);
    send.wait();
    send.free();
  } else {
    this->nap();
    this->tell(now_ns());
    recv.init(4, 100, 0, 3);
    recv.start();
    recv.wait_for(1);
    recv.free();
  }
}

TYPED_TEST(PbufPrepare, a_receive_waits_for_its_match) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 0) {
    recv.init(4, 100, 1, 3);
    recv.start();
    step("Pbuf_prepare of the receive");
    ASSERT_OK(prepare(recv.request));
    this->expect_after(now_ns());
    recv.wait_for(1);
    ASSERT_OK(prepare(recv.request)) << "matched once, prepared for ever";
    recv.free();
  } else {
    this->nap();
    this->tell(now_ns());
    send.init(4, 100, 0, 3);
    send.start();
    send.mark_all(1);
    send.wait();
    send.free();
  }
}

TYPED_TEST(PbufPrepare, all_of_many_requests_in_both_directions_are_prepared_together) {
  std::vector<Sending<TypeParam>> sends(10);
  std::vector<Receiving<TypeParam>> recvs(10);
  for (auto& send : sends) send.init(2, 1000, 1 - rank(), 3);
  for (auto& recv : recvs) recv.init(2, 1000, 1 - rank(), 3);
  std::vector<typename TypeParam::Request> requests;
  for (auto& send : sends) requests.push_back(send.request);
  for (auto& recv : recvs) requests.push_back(recv.request);
  const int count = static_cast<int>(requests.size());
  for (std::uint64_t key = 1; key <= 3; ++key) {
    for (auto& recv : recvs) recv.start();
    for (auto& send : sends) send.start();
    step("Pbuf_prepareall");
    ASSERT_OK(prepare_all(count, requests.data()));
    for (auto& send : sends) send.mark_all(key);
    for (auto& recv : recvs) recv.wait_for(key);
    for (auto& send : sends) send.wait();
    RETURN_IF_FAILED();
  }
  ASSERT_OK(prepare_all(0, requests.data()));
  for (auto& send : sends) send.free();
  for (auto& recv : recvs) recv.free();
}

TYPED_TEST(PbufPrepare, requests_to_nobody_are_prepared) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 100, MPI_PROC_NULL, 3);
  recv.init(2, 100, MPI_PROC_NULL, 3);
  send.start();
  recv.start();
  EXPECT_OK(prepare(send.request));
  EXPECT_OK(prepare(recv.request));
  send.mark_all(1);
  send.wait();
  recv.wait();
  send.free();
  recv.free();
}

TYPED_TEST(PbufPrepare, wrong_calls_are_refused) {
  ErrorsReturn handler(MPI_COMM_WORLD);
  Sending<TypeParam> send;
  send.init(2, 100, MPI_PROC_NULL, 3);
  EXPECT_ERROR(prepare(send.request), MPI_ERR_REQUEST, "Pbuf_prepare", "Start");
  EXPECT_ERROR(prepare(TypeParam::null()), MPI_ERR_REQUEST, "Pbuf_prepare");
  EXPECT_ERROR(prepare_all(1, &send.request), MPI_ERR_REQUEST, "Pbuf_prepareall", "Start");
  EXPECT_ERROR(prepare_all(-1, &send.request), MPI_ERR_COUNT, "Pbuf_prepareall", "count");
  typename TypeParam::Request* nowhere = nullptr;
  EXPECT_ERROR(prepare_all(1, nowhere), MPI_ERR_ARG, "Pbuf_prepareall", "requests");
  send.free();
}

TYPED_TEST(PbufPrepare, sizes_that_differ_are_told_on_both_sides) {
  ErrorsReturn handler(MPI_COMM_WORLD);
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 1) {
    // Started before the offer comes, so that Start does not fail.
    recv.init(2, 101, 0, 3);
    recv.start();
  }
  harness_barrier();
  if (rank() == 0) {
    send.init(2, 100, 1, 3);
    const int code = TypeParam::start(&send.request);
    if (code == MPI_SUCCESS) {
      EXPECT_ERROR(prepare(send.request), MPI_ERR_TRUNCATE, "Pbuf_prepare", "sizes");
      EXPECT_ERROR(TypeParam::wait(&send.request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "Wait", "sizes");
    } else {
      EXPECT_ERROR(code, MPI_ERR_TRUNCATE, "Start", "sizes");
    }
    send.free();
  } else {
    EXPECT_ERROR(prepare(recv.request), MPI_ERR_TRUNCATE, "Pbuf_prepare", "sizes");
    EXPECT_ERROR(TypeParam::wait(&recv.request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "Wait", "sizes");
    recv.free();
  }
}

}  // namespace
}  // namespace partita::test
