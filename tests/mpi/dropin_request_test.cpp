// Requests of Partita's as MPI_Request values: starting, looking at, freeing them (MPI-4, sections 3.7.6, 3.9 and 4.2).
#include <dlfcn.h>

#include <array>

#include <partita/mpix.h>

#include "dropin_ring.hpp"

namespace partita::test {
namespace {

TEST(DropinRequest, survives_many_epochs_by_the_standard_names) {
  Ring ring;
  for (int epoch = 0; epoch < 50; ++epoch) {
    ring.start();
    ring.mark_all();
    ring.finish();
    ring.expect_arrived();
  }
}

TEST(DropinRequest, marks_partitions_one_by_one_and_by_list) {
  Ring ring(6, 3);
  ring.start();
  std::array rest = {5, 0, 3};  // not const, for the header of Open MPI 5.0
  EXPECT_EQ(MPI_SUCCESS, MPI_Pready(4, ring.send));
  EXPECT_EQ(MPI_SUCCESS, MPI_Pready_list(3, rest.data(), ring.send));
  EXPECT_EQ(MPI_SUCCESS, MPI_Pready_range(1, 2, ring.send));
  for (int partition = 0; partition < 6; ++partition) {
    int arrived = 0;
    while (arrived == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Parrived(ring.recv, partition, &arrived));
  }
  ring.expect_arrived();
  ring.finish();
}

TEST(DropinRequest, parrived_is_true_on_null_and_inactive_requests) {
  Ring ring;
  int arrived = 0;
  EXPECT_EQ(MPI_SUCCESS, MPI_Parrived(MPI_REQUEST_NULL, 0, &arrived));
  EXPECT_EQ(1, arrived);
  arrived = 0;
  EXPECT_EQ(MPI_SUCCESS, MPI_Parrived(ring.recv, 0, &arrived));
  EXPECT_EQ(1, arrived);
}

TEST(DropinRequest, get_status_does_not_complete) {
  Ring ring;
  ring.start();
  int flag = 1;
  MPI_Status status{};
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status(ring.recv, &flag, &status));
  EXPECT_EQ(0, flag);
  harness_barrier();
  ring.mark_all();
  while (flag == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status(ring.recv, &flag, &status));
  ring.expect_received(status);
  MPI_Status again{};
  ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&ring.recv, &again));
  ring.expect_received(again);
  ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&ring.recv, &again));
  expect_empty(again);
  MPI_Wait(&ring.send, MPI_STATUS_IGNORE);
}

TEST(DropinRequest, to_proc_null_completes_at_once_in_every_call) {
  int value = 0;
  std::array requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_EQ(MPI_SUCCESS, MPI_Startall(2, requests.data()));
    ASSERT_EQ(MPI_SUCCESS, MPI_Pready(0, requests[0]));
    std::array<MPI_Status, 2> statuses{};
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), statuses.data()));
    EXPECT_EQ(MPI_PROC_NULL, statuses[1].MPI_SOURCE);
    EXPECT_EQ(MPI_ANY_TAG, statuses[1].MPI_TAG);
  }
  EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&requests[0]));
  EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&requests[1]));
}

TEST(DropinRequest, leaves_a_handle_value_that_the_mpi_uses_again_to_the_mpi) {
  for (int round = 0; round < 200; ++round) {
    {
      const Ring ring;
    }
    int in = -1;
    const int out = round;
    std::array requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Recv_init(&in, 1, MPI_INT, rank(), 40, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&out, 1, MPI_INT, rank(), 40, MPI_COMM_WORLD, &requests[1]);
    ASSERT_EQ(MPI_SUCCESS, MPI_Startall(2, requests.data()));
    ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    ASSERT_EQ(round, in);
    ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&requests[0]));
    ASSERT_EQ(MPI_SUCCESS, MPI_Request_free(&requests[1]));
  }
}

TEST(DropinRequest, hundreds_can_be_alive_at_once) {
  constexpr int many = 300;
  std::vector<std::unique_ptr<Ring>> rings;
  for (int i = 0; i < many; ++i) rings.push_back(std::make_unique<Ring>(2, 5, MPI_COMM_WORLD, i));
  for (auto& ring : rings) ring->start();
  for (auto ring = rings.rbegin(); ring != rings.rend(); ++ring) (*ring)->mark_all();
  std::vector<MPI_Request> requests;
  for (auto& ring : rings) requests.insert(requests.end(), {ring->send, ring->recv});
  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(2 * many, requests.data(), MPI_STATUSES_IGNORE));
  for (auto& ring : rings) ring->expect_arrived();
}

TEST(DropinRequest, pbuf_prepare_waits_for_the_receiver) {
  Ring ring;
  for (int epoch = 0; epoch < 3; ++epoch) {
    ring.start();
    ASSERT_EQ(MPI_SUCCESS, MPIX_Pbuf_prepare(ring.send));
    ring.mark_all();
    ring.finish();
    ring.expect_arrived();
  }
  ring.start();
  std::array requests = {ring.recv, ring.send};
  ASSERT_EQ(MPI_SUCCESS, MPIX_Pbuf_prepareall(2, requests.data()));
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

TEST(DropinRequest, tells_its_link_once_matched) {
  Ring ring;
  ring.start();
  ring.mark_all();
  ring.finish();
  MPI_Info info = MPI_INFO_NULL;
  ASSERT_EQ(MPI_SUCCESS, Partita_mpi_Request_get_info(ring.send, &info));
  char link[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  MPI_Info_get(info, "partita_link", MPI_MAX_INFO_VAL, link, &found);
  EXPECT_EQ(1, found);
  EXPECT_STRNE("", link);
  MPI_Info_free(&info);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
TEST(DropinRequest, get_status_of_several_does_not_complete) {
  Ring ring;
  ring.start();
  int in = -1;
  std::array requests = {ring.recv, MPI_REQUEST_NULL, ring.send};
  MPI_Irecv(&in, 1, MPI_INT, ring.previous(), 41, MPI_COMM_WORLD, &requests[1]);
  std::array<MPI_Status, 3> statuses{};
  std::array<int, 3> indices{};
  int flag = 1;
  int found = -1;
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_all(3, requests.data(), &flag, statuses.data()));
  EXPECT_EQ(0, flag);
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_any(3, requests.data(), &found, &flag, statuses.data()));
  EXPECT_EQ(0, flag);
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_some(3, requests.data(), &found, indices.data(), statuses.data()));
  EXPECT_EQ(0, found);

  harness_barrier();
  ring.mark_all();
  const int out = 1;
  MPI_Request sending = MPI_REQUEST_NULL;
  MPI_Isend(&out, 1, MPI_INT, ring.next(), 41, MPI_COMM_WORLD, &sending);
  while (flag == 0) ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_all(3, requests.data(), &flag, statuses.data()));
  ring.expect_received(statuses[0]);
  EXPECT_EQ(41, statuses[1].MPI_TAG);
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_some(3, requests.data(), &found, indices.data(), statuses.data()));
  EXPECT_EQ(3, found);
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_any(3, requests.data(), &found, &flag, statuses.data()));
  EXPECT_EQ(0, found);

  ASSERT_EQ(MPI_SUCCESS, MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_some(3, requests.data(), &found, indices.data(), statuses.data()));
  EXPECT_EQ(MPI_UNDEFINED, found);
  ASSERT_EQ(MPI_SUCCESS, MPI_Request_get_status_any(3, requests.data(), &found, &flag, statuses.data()));
  EXPECT_EQ(1, flag);
  EXPECT_EQ(MPI_UNDEFINED, found);
  expect_empty(statuses[0]);
  MPI_Wait(&sending, MPI_STATUS_IGNORE);
}
#endif

/// The process's own function of that name, which not every MPI has.
template <class Function>
Function* extension(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

TEST(DropinRequest, mpich_is_told_the_truth_of_completion) {
  const auto is_complete = extension<int(MPI_Request)>("MPIX_Request_is_complete");
  if (is_complete == nullptr) GTEST_SKIP() << "this MPI has no MPIX_Request_is_complete";
  Ring ring;
  EXPECT_NE(0, is_complete(ring.recv)) << "inactive";
  ring.start();
  EXPECT_EQ(0, is_complete(ring.recv)) << "nobody has marked";
  harness_barrier();
  ring.mark_all();
  while (is_complete(ring.recv) == 0) {
  }
  ring.expect_arrived();
  ring.finish();
}

TEST(DropinRequest, a_stream_of_mpich_does_not_complete_what_is_not) {
  const auto wait = extension<int(MPI_Request*, MPI_Status*)>("MPIX_Wait_enqueue");
  const auto wait_all = extension<int(int, MPI_Request*, MPI_Status*)>("MPIX_Waitall_enqueue");
  if (wait == nullptr || wait_all == nullptr) GTEST_SKIP() << "this MPI has no MPIX_Waitall_enqueue";
  Ring ring;
  ring.start();
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  std::array requests = {MPI_REQUEST_NULL, ring.recv};
  for (const int code : {wait(&requests[1], MPI_STATUS_IGNORE), wait_all(2, requests.data(), MPI_STATUSES_IGNORE)}) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    EXPECT_EQ(MPI_ERR_REQUEST, error_class);
    EXPECT_EQ(ring.recv, requests[1]) << "the request stays";
  }
  harness_barrier();
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

}  // namespace
}  // namespace partita::test
