// Wrong handles and wrong calls: the right error class and a sentence, through the error handler (MPI-4, section 9.3).
#include <array>
#include <string>

#include <partita/mpix.h>

#include "apps/support/own_mpi.hpp"
#include "dropin_ring.hpp"

namespace partita::test {
namespace {

/// Errors of no communicator go to MPI_COMM_SELF, those of a request to its communicator.
class DropinError : public testing::Test {
 protected:
  DropinError() {
    for (const MPI_Comm comm : {MPI_COMM_SELF, MPI_COMM_WORLD}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  ~DropinError() override {
    for (const MPI_Comm comm : {MPI_COMM_SELF, MPI_COMM_WORLD}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  }

  static void expect_word(const std::string& text, const char* word) {
    EXPECT_NE(std::string::npos, text.find(word)) << "'" << word << "' in: " << text;
  }

  /// `code` is of `error_class` and has a sentence with all of `words`.
  template <class... Words>
  static void expect_error(int error_class, int code, Words... words) {
    int found_class = -1;
    MPI_Error_class(code, &found_class);
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    EXPECT_EQ(MPI_SUCCESS, MPI_Error_string(code, text, &length));
    EXPECT_EQ(error_class, found_class) << text;
    EXPECT_EQ(std::string(text).size(), static_cast<std::size_t>(length));
    (expect_word(text, words), ...);
  }
};

/// A persistent request of the MPI's.
struct Foreign {
  Foreign() { MPI_Recv_init(&value, 1, MPI_INT, rank(), 50, MPI_COMM_WORLD, &request); }
  ~Foreign() { MPI_Request_free(&request); }
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
};

TEST_F(DropinError, partitioned_calls_refuse_requests_of_the_mpi) {
  Foreign foreign;
  int partition = 0;  // not const, for the header of Open MPI 5.0
  int flag = 0;
  for (const bool others_alive : {false, true}) {
    const auto ring = others_alive ? std::make_unique<Ring>() : nullptr;
    expect_error(MPI_ERR_REQUEST, MPI_Pready(0, foreign.request), "MPI_Pready", "has no partitions");
    expect_error(MPI_ERR_REQUEST, MPI_Pready_range(0, 0, foreign.request), "MPI_Pready_range", "MPI_Psend_init");
    expect_error(MPI_ERR_REQUEST, MPI_Pready_list(1, &partition, foreign.request), "MPI_Pready_list");
    expect_error(MPI_ERR_REQUEST, MPI_Parrived(foreign.request, 0, &flag), "MPI_Parrived");
    expect_error(MPI_ERR_REQUEST, MPIX_Pbuf_prepare(foreign.request), "MPIX_Pbuf_prepare");
    expect_error(MPI_ERR_REQUEST, MPIX_Pbuf_prepareall(1, &foreign.request), "MPIX_Pbuf_prepareall");
  }
}

TEST_F(DropinError, partitioned_calls_refuse_null_requests) {
  expect_error(MPI_ERR_REQUEST, MPI_Pready(0, MPI_REQUEST_NULL), "MPI_Pready", "MPI_REQUEST_NULL");
  expect_error(MPI_ERR_REQUEST, MPI_Pready_range(0, 0, MPI_REQUEST_NULL), "MPI_Pready_range", "MPI_REQUEST_NULL");
  expect_error(MPI_ERR_REQUEST, MPI_Pready_list(0, nullptr, MPI_REQUEST_NULL), "MPI_Pready_list", "MPI_REQUEST_NULL");
  expect_error(MPI_ERR_REQUEST, MPIX_Pbuf_prepare(MPI_REQUEST_NULL), "MPIX_Pbuf_prepare", "MPI_REQUEST_NULL");
}

TEST_F(DropinError, initialisation_refuses_a_null_pointer_for_the_request) {
  int value = 0;
  expect_error(MPI_ERR_ARG, MPI_Psend_init(&value, 1, 1, MPI_INT, rank(), 0, MPI_COMM_WORLD, MPI_INFO_NULL, nullptr),
               "MPI_Psend_init", "request");
  expect_error(MPI_ERR_ARG, MPI_Precv_init(&value, 1, 1, MPI_INT, rank(), 0, MPI_COMM_WORLD, MPI_INFO_NULL, nullptr),
               "MPI_Precv_init", "request");
}

TEST_F(DropinError, marks_at_the_wrong_time_or_place_are_refused) {
  Ring ring;
  expect_error(MPI_ERR_REQUEST, MPI_Pready(0, ring.send), "Pready");
  ring.start();
  EXPECT_NE(MPI_SUCCESS, MPI_Pready(0, ring.recv));
  EXPECT_NE(MPI_SUCCESS, MPI_Pready(4, ring.send));
  EXPECT_NE(MPI_SUCCESS, MPI_Pready(-1, ring.send));
  int flag = 0;
  EXPECT_NE(MPI_SUCCESS, MPI_Parrived(ring.send, 0, &flag));
  EXPECT_NE(MPI_SUCCESS, MPI_Parrived(ring.recv, 4, &flag));
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

TEST_F(DropinError, an_active_request_is_not_freed) {
  Ring ring;
  ring.start();
  const MPI_Request before = ring.send;
  expect_error(MPI_ERR_REQUEST, MPI_Request_free(&ring.send), "active");
  EXPECT_EQ(before, ring.send);
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

TEST_F(DropinError, a_partitioned_request_is_not_cancelled) {
  Ring ring;
  ring.start();
  expect_error(MPI_ERR_REQUEST, MPI_Cancel(&ring.recv), "MPI_Cancel", "cannot be cancelled");
  ring.mark_all();
  ring.finish();
  ring.expect_arrived();
}

TEST_F(DropinError, a_freed_request_is_not_marked) {
  MPI_Request freed = MPI_REQUEST_NULL;
  {
    const Ring ring;
    freed = ring.send;
  }
  expect_error(MPI_ERR_REQUEST, MPI_Pready(0, freed), "MPI_Pready", "freed");
}

TEST_F(DropinError, errors_of_the_mpi_keep_their_own_text) {
  const int code = MPI_Send(nullptr, 1, MPI_INT, ranks() + 5, 0, MPI_COMM_WORLD);
  ASSERT_NE(MPI_SUCCESS, code);
  char own[MPI_MAX_ERROR_STRING] = "";
  char given[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PARTITA_OF_MPI(Error_string)(code, own, &length);
  MPI_Error_string(code, given, &length);
  EXPECT_STREQ(own, given);
}

TEST_F(DropinError, communicators_that_partita_does_not_know_are_refused) {
  // As after MPI_Comm_spawn: made behind the drop-in's back, then duplicated in its sight.
  MPI_Comm unknown = MPI_COMM_NULL;
  MPI_Comm duplicate = MPI_COMM_NULL;
  PARTITA_OF_MPI(Comm_dup)(MPI_COMM_WORLD, &unknown);
  ASSERT_EQ(MPI_SUCCESS, MPI_Comm_dup(unknown, &duplicate));
  for (const MPI_Comm comm : {unknown, duplicate}) {
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int value = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    expect_error(MPI_ERR_COMM, MPI_Psend_init(&value, 1, 1, MPI_INT, rank(), 0, comm, MPI_INFO_NULL, &request),
                 "does not know");
    EXPECT_EQ(MPI_REQUEST_NULL, request);
  }
  MPI_Comm_free(&duplicate);
  MPI_Comm_free(&unknown);
}

/// Requests of the MPI's among ours make no difference.
TEST_F(DropinError, a_null_status_is_refused_in_mixed_arrays) {
  MPI_Status *const none = nullptr, *const no_status = MPI_STATUS_IGNORE, *const no_statuses = MPI_STATUSES_IGNORE;
  if (none == no_status && none == no_statuses) GTEST_SKIP() << "this MPI's MPI_STATUS_IGNORE is null";
  Foreign foreign;
  Ring ring;
  ring.start();
  MPI_Start(&foreign.request);
  std::array<MPI_Request, 4> requests = {foreign.request, ring.send, MPI_REQUEST_NULL, ring.recv};
  std::array<int, 4> indices{};
  int flag = 0;
  int index = 0;
  const auto expect_refused = [](int code, const char* call) {
    expect_error(MPI_ERR_ARG, code, call, "is null", "_IGNORE");
  };
  expect_refused(MPI_Waitall(4, requests.data(), none), "Waitall");
  expect_refused(MPI_Testall(4, requests.data(), &flag, none), "Testall");
  expect_refused(MPI_Waitany(4, requests.data(), &index, none), "Waitany");
  expect_refused(MPI_Testany(4, requests.data(), &index, &flag, none), "Testany");
  expect_refused(MPI_Waitsome(4, requests.data(), &index, indices.data(), none), "Waitsome");
  expect_refused(MPI_Testsome(4, requests.data(), &index, indices.data(), none), "Testsome");
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  expect_refused(MPI_Request_get_status_all(4, requests.data(), &flag, none), "Request_get_status_all");
  expect_refused(MPI_Request_get_status_any(4, requests.data(), &index, &flag, none), "Request_get_status_any");
  expect_refused(MPI_Request_get_status_some(4, requests.data(), &index, indices.data(), none),
                 "Request_get_status_some");
#endif
  const int value = 5;
  MPI_Send(&value, 1, MPI_INT, rank(), 50, MPI_COMM_WORLD);
  ring.mark_all();
  EXPECT_EQ(MPI_SUCCESS, MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(value, foreign.value);
  ring.expect_arrived();
}

/// Counts the calls of an error handler.
int handled = 0;
void count_error(MPI_Comm*, int*, ...) {
  ++handled;
}

TEST_F(DropinError, the_error_handler_is_called_once) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(count_error, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  handled = 0;
  EXPECT_NE(MPI_SUCCESS, MPI_Pready(0, MPI_REQUEST_NULL));
  EXPECT_EQ(1, handled);
  MPI_Errhandler_free(&handler);
}

TEST_F(DropinError, different_total_sizes_are_reported_per_status) {
  std::array<char, 64> out{};
  std::array<char, 64> in{};
  int token = -1;
  const int next = (rank() + 1) % ranks();
  const int previous = (rank() + ranks() - 1) % ranks();
  enum { send, recv, token_recv, token_send, count };
  std::array<MPI_Request, count> requests{};
  MPI_Precv_init(in.data(), 2, 16, MPI_CHAR, previous, 60, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[recv]);
  ASSERT_EQ(MPI_SUCCESS, MPI_Start(&requests[recv]));
  harness_barrier();  // a receive that is matched before its start has the error from there
  MPI_Psend_init(out.data(), 2, 32, MPI_CHAR, next, 60, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[send]);
  if (MPI_Start(&requests[send]) == MPI_SUCCESS) MPI_Pready_range(0, 1, requests[send]);
  MPI_Irecv(&token, 1, MPI_INT, previous, 61, MPI_COMM_WORLD, &requests[token_recv]);
  const int value = 3;
  MPI_Isend(&value, 1, MPI_INT, next, 61, MPI_COMM_WORLD, &requests[token_send]);

  bool failed = false;
  for (int round = 0; round < 3; ++round) {
    std::array<MPI_Status, count> statuses{};
    for (auto& status : statuses) status.MPI_ERROR = 4711;
    const int code = MPI_Waitall(count, requests.data(), statuses.data());
    if (code == MPI_SUCCESS) break;
    failed = true;
    expect_error(MPI_ERR_IN_STATUS, code);
    for (const auto& status : statuses) EXPECT_NE(4711, status.MPI_ERROR);
    EXPECT_TRUE(statuses[send].MPI_ERROR != MPI_SUCCESS || statuses[recv].MPI_ERROR != MPI_SUCCESS);
  }
  EXPECT_TRUE(failed);
  for (int i = token_recv; i < count; ++i) MPI_Wait(&requests[static_cast<std::size_t>(i)], MPI_STATUS_IGNORE);
  EXPECT_EQ(3, token);
  harness_barrier();
  for (const int i : {send, recv}) EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&requests[static_cast<std::size_t>(i)]));
}

}  // namespace
}  // namespace partita::test
