// Wrong arguments of the C API without the drop-in, calls outside Init … Finalize, and communicators made known by
// hand. Those of Psend_init, Precv_init and of marks stand in init_errors_test.cpp and use_errors_test.cpp.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <string>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

class CapiErrors : public testing::Test {
 protected:
  /// `code` is what `call` returned on a null `argument`.
  static void expect_null(int code, const char* call, const char* argument) {
    EXPECT_ERROR(code, MPI_ERR_ARG, call, argument, "null");
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
};

int answer_yes(void*) {
  return 1;
}

TEST_F(CapiErrors, runtime_calls_refuse_null_pointers) {
  int number = 0;
  expect_null(Partita_Initialized(nullptr), "Initialized", "flag");
  expect_null(Partita_Get_version(nullptr, &number, &number), "Get_version", "major");
  expect_null(Partita_Get_version(&number, nullptr, &number), "Get_version", "minor");
  expect_null(Partita_Get_version(&number, &number, nullptr), "Get_version", "patch");
  char text[MPI_MAX_ERROR_STRING] = "";
  expect_null(Partita_Error_string(MPI_ERR_TAG, nullptr, &number), "Error_string", "string");
  expect_null(Partita_Error_string(MPI_ERR_TAG, text, nullptr), "Error_string", "length");
  EXPECT_OK(Partita_Progress(nullptr));
}

TEST_F(CapiErrors, a_second_init_changes_nothing) {
  int flag = 0;
  EXPECT_OK(Partita_Init(MPI_COMM_WORLD));
  EXPECT_OK(Partita_Initialized(&flag));
  EXPECT_EQ(flag, 1);
}

TEST_F(CapiErrors, raise_keeps_class_and_sentence) {
  for (const int error_class :
       {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_OP,
        MPI_ERR_TOPOLOGY, MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_ERR_INFO, MPI_ERR_INFO_KEY, MPI_ERR_INFO_VALUE,
        MPI_ERR_TRUNCATE, MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_INTERN}) {
    const std::string sentence = "a layer above found class " + std::to_string(error_class);
    EXPECT_ERROR(Partita_Raise(MPI_COMM_WORLD, error_class, sentence.c_str()), error_class, sentence);
  }
  EXPECT_ERROR(Partita_Raise(MPI_COMM_NULL, MPI_ERR_TAG, "of no communicator"), MPI_ERR_TAG, "of no communicator");
  EXPECT_ERROR(Partita_Raise(MPI_COMM_WORLD, MPI_ERR_PENDING, "a class that has no code"), MPI_ERR_OTHER,
               "a class that has no code");
  EXPECT_ERROR(Partita_Raise(MPI_COMM_WORLD, 1 << 30, "no class at all"), MPI_ERR_OTHER, "no class at all");
}

TEST_F(CapiErrors, raise_refuses_a_null_sentence) {
  expect_null(Partita_Raise(MPI_COMM_WORLD, MPI_ERR_TAG, nullptr), "Raise", "sentence");
}

TEST_F(CapiErrors, memory_calls_check_their_arguments) {
  void* base = nullptr;
  EXPECT_ERROR(Partita_Alloc(-1, MPI_INFO_NULL, &base), MPI_ERR_ARG, "Alloc", "size_bytes", "-1");
  expect_null(Partita_Alloc(64, MPI_INFO_NULL, nullptr), "Alloc", "baseptr");
  EXPECT_ERROR(Partita_Alloc(MPI_Aint{1} << 62, MPI_INFO_NULL, &base), MPI_ERR_NO_MEM, "Alloc", "bytes");
  ASSERT_OK(Partita_Alloc(64, MPI_INFO_NULL, &base));
  int flag = 0;
  expect_null(Partita_Is_allocated(base, nullptr), "Is_allocated", "flag");
  EXPECT_OK(Partita_Is_allocated(base, &flag));
  EXPECT_EQ(flag, 1);
  EXPECT_OK(Partita_Is_allocated(nullptr, &flag));
  EXPECT_EQ(flag, 0);

  EXPECT_ERROR(Partita_Free(nullptr), MPI_ERR_ARG, "Free", "base");
  EXPECT_ERROR(Partita_Free(&flag), MPI_ERR_ARG, "Free", "did not allocate");
  EXPECT_ERROR(Partita_Free(static_cast<char*>(base) + 8), MPI_ERR_ARG, "Free", "base");
  EXPECT_OK(Partita_Free(base));
  EXPECT_ERROR(Partita_Free(base), MPI_ERR_ARG, "Free", "freed already");
}

TEST_F(CapiErrors, communicator_calls_refuse_what_is_no_communicator) {
  EXPECT_ERROR(Partita_Comm_register(MPI_COMM_NULL), MPI_ERR_COMM, "Comm_register", "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Comm_register(MPI_Comm{}), MPI_ERR_COMM, "Comm_register", "no communicator");
  EXPECT_ERROR(Partita_Comm_derive(MPI_COMM_NULL, MPI_COMM_WORLD), MPI_ERR_COMM, "Comm_derive", "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Comm_derive(MPI_Comm{}, MPI_COMM_WORLD), MPI_ERR_COMM, "Comm_derive", "no communicator");
  EXPECT_ERROR(Partita_Comm_derive(MPI_COMM_WORLD, MPI_Comm{}), MPI_ERR_COMM, "Comm_derive");
  EXPECT_OK(Partita_Comm_derive(MPI_COMM_WORLD, MPI_COMM_NULL));  // a constructor that gave this rank none
}

TEST_F(CapiErrors, a_communicator_carries_requests_once_it_is_registered) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(PMPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Partita_Request none = PARTITA_REQUEST_NULL;
  int value = 0;
  EXPECT_ERROR(Partita_Psend_init(&value, 1, 1, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &none), MPI_ERR_COMM,
               "does not know", "Partita_Comm_register");
  ASSERT_OK(Partita_Comm_register(comm));
  EXPECT_OK(Partita_Comm_register(comm));

  // Another pair has these peers and this tag on the world: the two pairs must not mix.
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Sending<CFace> send, send_of_world;
  Receiving<CFace> recv, recv_of_world;
  recv_of_world.init(2, 500, left, 6);
  recv.init(4, 250, left, 6, comm);
  send.init(4, 250, right, 6, comm);
  send_of_world.init(2, 500, right, 6);
  RETURN_IF_FAILED();
  for (std::uint64_t key = 1; key <= 3; ++key) {
    recv_of_world.start();
    run_epoch(send, recv, key);
    send_of_world.start();
    send_of_world.mark_all(key + 100);
    recv_of_world.wait_for(key + 100);
    send_of_world.wait();
    RETURN_IF_FAILED();
  }
  send.free();
  recv.free();
  send_of_world.free();
  recv_of_world.free();
  EXPECT_OK(MPI_Comm_free(&comm));
}

TEST_F(CapiErrors, an_intercommunicator_carries_requests_once_it_is_registered) {
  if (ranks() != 2) GTEST_SKIP() << "needs 2 ranks";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(PMPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank(), 12, &comm));
  ASSERT_OK(Partita_Comm_register(comm));
  Sending<CFace> send;
  Receiving<CFace> recv;
  send.init(4, 250, 0, 6, comm);
  recv.init(2, 500, 0, 6, comm);
  RETURN_IF_FAILED();
  run_epoch(send, recv, 7);
  send.free();
  recv.free();
  EXPECT_OK(MPI_Comm_free(&comm));
}

TEST_F(CapiErrors, a_child_of_an_unknown_communicator_stays_unknown) {
  MPI_Comm parent = MPI_COMM_NULL, child = MPI_COMM_NULL;
  ASSERT_OK(PMPI_Comm_dup(MPI_COMM_WORLD, &parent));
  ASSERT_OK(PMPI_Comm_dup(parent, &child));
  MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN);
  EXPECT_OK(Partita_Comm_derive(parent, child));
  Partita_Request none = PARTITA_REQUEST_NULL;
  int value = 0;
  EXPECT_ERROR(Partita_Precv_init(&value, 1, 1, MPI_INT, 0, 1, child, MPI_INFO_NULL, &none), MPI_ERR_COMM,
               "does not know");
  EXPECT_OK(MPI_Comm_free(&child));
  EXPECT_OK(MPI_Comm_free(&parent));
}

/// Calls on requests, of which there are a send and a receive of this rank.
class CapiRequestErrors : public CapiErrors {
 protected:
  void SetUp() override {
    send_.init(4, 100, rank(), 1);
    recv_.init(4, 100, rank(), 1);
  }
  void TearDown() override {
    run_epoch(send_, recv_, 5);  // the refused calls have left them as they were
    send_.free();
    recv_.free();
  }

  Sending<CFace> send_;
  Receiving<CFace> recv_;
};

TEST_F(CapiRequestErrors, completion_calls_refuse_null_output_arguments) {
  std::array requests = {send_.request, recv_.request};
  MPI_Status* const none = MPI_STATUS_IGNORE;
  MPI_Status* const no_array = MPI_STATUSES_IGNORE;
  int number = 0, indices[2];
  expect_null(Partita_Test(requests.data(), nullptr, none), "Test", "flag");
  expect_null(Partita_Request_get_status(requests[0], nullptr, none), "Request_get_status", "flag");
  expect_null(Partita_Testall(2, requests.data(), nullptr, no_array), "Testall", "flag");
  expect_null(Partita_Waitany(2, requests.data(), nullptr, none), "Waitany", "index");
  expect_null(Partita_Testany(2, requests.data(), nullptr, &number, none), "Testany", "index");
  expect_null(Partita_Testany(2, requests.data(), &number, nullptr, none), "Testany", "flag");
  expect_null(Partita_Waitsome(2, requests.data(), nullptr, indices, no_array), "Waitsome", "outcount");
  expect_null(Partita_Waitsome(2, requests.data(), &number, nullptr, no_array), "Waitsome", "indices");
  expect_null(Partita_Testsome(2, requests.data(), nullptr, indices, no_array), "Testsome", "outcount");
  expect_null(Partita_Testsome(2, requests.data(), &number, nullptr, no_array), "Testsome", "indices");
}

TEST_F(CapiRequestErrors, calls_on_arrays_refuse_null_arrays_and_negative_counts) {
  Partita_Request* const nowhere = nullptr;
  MPI_Status* const none = MPI_STATUS_IGNORE;
  MPI_Status* const no_array = MPI_STATUSES_IGNORE;
  int number = 0, flag = 0, index = 0;
  expect_null(Partita_Wait(nowhere, none), "Wait", "request");
  expect_null(Partita_Test(nowhere, &flag, none), "Test", "request");
  expect_null(Partita_Waitall(1, nowhere, no_array), "Waitall", "requests");
  expect_null(Partita_Testall(1, nowhere, &flag, no_array), "Testall", "requests");
  expect_null(Partita_Waitany(1, nowhere, &index, none), "Waitany", "requests");
  expect_null(Partita_Testany(1, nowhere, &index, &flag, none), "Testany", "requests");
  expect_null(Partita_Waitsome(1, nowhere, &number, &index, no_array), "Waitsome", "requests");
  expect_null(Partita_Testsome(1, nowhere, &number, &index, no_array), "Testsome", "requests");
  expect_null(Partita_Startall(1, nowhere), "Startall", "requests");
  expect_null(Partita_Pbuf_prepareall(1, nowhere), "Pbuf_prepareall", "requests");
  expect_null(Partita_Wait_until(1, nowhere, answer_yes, nullptr), "Wait_until", "requests");
  expect_null(Partita_Wait_until(1, &send_.request, nullptr, nullptr), "Wait_until", "done");

  EXPECT_ERROR(Partita_Startall(-1, &send_.request), MPI_ERR_COUNT, "Startall", "-1");
  EXPECT_ERROR(Partita_Waitall(-2, &send_.request, no_array), MPI_ERR_COUNT, "Waitall", "-2");
  EXPECT_ERROR(Partita_Wait_until(-3, &send_.request, answer_yes, nullptr), MPI_ERR_COUNT, "Wait_until", "-3");
  EXPECT_OK(Partita_Startall(0, nowhere));
  EXPECT_OK(Partita_Waitall(0, nowhere, nullptr));  // no statuses are no missing ones
  EXPECT_OK(Partita_Wait_until(0, nowhere, answer_yes, nullptr));
}

TEST_F(CapiRequestErrors, calls_on_one_request_refuse_null) {
  Partita_Request null = PARTITA_REQUEST_NULL;
  Partita_Prequest prequest{};
  MPI_Info info = MPI_INFO_NULL;
  for (Partita_Request* request : {static_cast<Partita_Request*>(nullptr), &null}) {
    EXPECT_ERROR(Partita_Start(request), MPI_ERR_REQUEST, "Start", "null");
    EXPECT_ERROR(Partita_Request_free(request), MPI_ERR_REQUEST, "Request_free", "null");
  }
  EXPECT_ERROR(Partita_Startall(1, &null), MPI_ERR_REQUEST, "Startall", "null");
  EXPECT_ERROR(Partita_Request_get_info(null, &info), MPI_ERR_REQUEST, "Request_get_info", "null");
  expect_null(Partita_Request_get_info(send_.request, nullptr), "Request_get_info", "info");
  EXPECT_ERROR(Partita_Prequest_create(&prequest, null), MPI_ERR_REQUEST, "Prequest_create", "null");
  expect_null(Partita_Prequest_create(nullptr, send_.request), "Prequest_create", "prequest");
  EXPECT_ERROR(Partita_Prequest_create(&prequest, send_.request), MPI_ERR_BUFFER, "Prequest_create", "memory");
  expect_null(Partita_Prequest_free(nullptr), "Prequest_free", "prequest");
  EXPECT_ERROR(Partita_Prequest_free(&prequest), MPI_ERR_ARG, "Prequest_free", "prequest");
}

/// Between a Finalize and the next Init.
class CapiWithoutRuntime : public CapiErrors {
 protected:
  void SetUp() override { ASSERT_OK(Partita_Finalize()); }
  void TearDown() override { ASSERT_OK(Partita_Init(MPI_COMM_WORLD)); }

  static void expect_refused(int code, const char* call) {
    EXPECT_ERROR(code, MPI_ERR_OTHER, call, "not initialised", "Partita_Init");
  }
};

TEST_F(CapiWithoutRuntime, calls_say_that_it_is_missing) {
  Partita_Request null = PARTITA_REQUEST_NULL;
  void* base = nullptr;
  int number = 0, flag = 1;
  expect_refused(Partita_Finalize(), "Finalize");
  expect_refused(Partita_Progress(&number), "Progress");
  expect_refused(Partita_Alloc(64, MPI_INFO_NULL, &base), "Alloc");
  expect_refused(Partita_Free(&number), "Free");
  expect_refused(Partita_Comm_register(MPI_COMM_WORLD), "Comm_register");
  expect_refused(Partita_Comm_derive(MPI_COMM_WORLD, MPI_COMM_SELF), "Comm_derive");
  expect_refused(Partita_Psend_init(&number, 1, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &null), "Psend_init");
  expect_refused(Partita_Precv_init(&number, 1, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &null), "Precv_init");
  expect_refused(Partita_Test(&null, &number, MPI_STATUS_IGNORE), "Test");
  expect_refused(Partita_Request_get_status(null, &number, MPI_STATUS_IGNORE), "Request_get_status");
  expect_refused(Partita_Wait_until(0, nullptr, answer_yes, nullptr), "Wait_until");
  EXPECT_OK(Partita_Wait(&null, MPI_STATUS_IGNORE));  // has nothing to wait for

  EXPECT_OK(Partita_Initialized(&flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(Partita_Is_allocated(&number, &flag));
  EXPECT_EQ(flag, 0);
  EXPECT_OK(Partita_Get_version(&number, &number, &number));
  EXPECT_ERROR(Partita_Raise(MPI_COMM_SELF, MPI_ERR_RANK, "no runtime is needed"), MPI_ERR_RANK, "no runtime");
}

TEST_F(CapiWithoutRuntime, init_refuses_what_is_no_intracommunicator) {
  EXPECT_ERROR(Partita_Init(MPI_COMM_NULL), MPI_ERR_COMM, "Init", "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Init(MPI_Comm{}), MPI_ERR_COMM, "Init", "no communicator");
  if (ranks() == 2) {
    MPI_Comm inter = MPI_COMM_NULL;
    ASSERT_OK(PMPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank(), 12, &inter));
    EXPECT_ERROR(Partita_Init(inter), MPI_ERR_COMM, "Init", "intercommunicator");
    EXPECT_OK(MPI_Comm_free(&inter));
  }
  int flag = 1;
  EXPECT_OK(Partita_Initialized(&flag));
  EXPECT_EQ(flag, 0);
}

TEST_F(CapiWithoutRuntime, finalize_frees_idle_requests) {
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  Sending<CFace> send;
  send.init(1, 10, rank(), 1);
  EXPECT_OK(Partita_Finalize());
}

/// A partitioned allreduce of one number in each of two partitions.
struct Sum {
  std::array<int, 2> in{1, 2}, out{};
  Partita_Request request = PARTITA_REQUEST_NULL;

  Sum() {
    EXPECT_OK(Partita_Pallreduce_init(in.data(), out.data(), 2, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                      &request));
  }
  void start_and_mark(int last) const {
    Partita_Request started = request;
    EXPECT_OK(Partita_Start(&started));
    EXPECT_OK(Partita_Pready_range(0, last, request));
  }
};

TEST_F(CapiWithoutRuntime, finalize_frees_collectives_that_are_idle_or_complete) {
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  const Sum idle, complete;
  complete.start_and_mark(1);
  for (int partition = 0; partition < 2;) {
    int arrived = 0;
    ASSERT_OK(Partita_Parrived(complete.request, partition, &arrived));
    partition += arrived;
  }
  EXPECT_OK(Partita_Finalize());
  EXPECT_EQ(complete.out[1], 2 * ranks());
}

TEST_F(CapiWithoutRuntime, finalize_names_open_collectives_and_ends_all_the_same) {
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  const Sum open;
  open.start_and_mark(0);
  for (int arrived = 0; arrived == 0;) ASSERT_OK(Partita_Parrived(open.request, 0, &arrived));
  harness_barrier();  // a rank that ends frees its request, of which those that still need it hear instead
  EXPECT_ERROR(Partita_Finalize(), MPI_ERR_REQUEST, "Finalize", "1 partitioned request", "allreduce", "not marked (1)");
}

TEST_F(CapiWithoutRuntime, finalize_names_open_requests_and_ends_all_the_same) {
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  Sending<CFace> send;
  send.init(1, 10, rank(), 1);
  ASSERT_OK(Partita_Start(&send.request));
  EXPECT_ERROR(Partita_Finalize(), MPI_ERR_REQUEST, "Finalize", "1 partitioned request", "not complete");
  int flag = 1;
  EXPECT_OK(Partita_Initialized(&flag));
  EXPECT_EQ(flag, 0);
}

}  // namespace
}  // namespace partita::test
