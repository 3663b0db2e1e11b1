// Communicators of spawned, connected and session processes: a partitioned request on one is refused with a sentence,
// and all else on them works (MPI-4, chapters 11.2, 11.3 and 11.9).
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr const char* child_program = PARTITEST_CHILD;

/// Both calls on `comm` are refused, and its error handler hears of it.
void expect_refused(MPI_Comm comm) {
  ErrorsReturn handler(comm);
  char data[8] = "";
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_ERROR(MPI_Psend_init(data, 2, 4, MPI_BYTE, 0, 3, comm, MPI_INFO_NULL, &request), MPI_ERR_COMM, "Psend_init",
               "comm", "spawned");
  EXPECT_ERROR(MPI_Precv_init(data, 2, 4, MPI_BYTE, 0, 3, comm, MPI_INFO_NULL, &request), MPI_ERR_COMM, "Precv_init",
               "comm", "spawned");
  EXPECT_EQ(request, MPI_REQUEST_NULL);
}

void expect_plain_exchange(MPI_Comm comm) {
  int mine = rank(), theirs = -1;
  EXPECT_EQ(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_NE(theirs, -1);
}

TEST(DropinProcesses, requests_on_the_intercommunicator_of_a_spawn_are_refused) {
  const ErrorsReturn handler(MPI_COMM_SELF);
  MPI_Comm children = MPI_COMM_NULL;
  step("MPI_Comm_spawn");
  if (rank() == 0) {
    // The child decides otherwise than this program who makes progress.
    const char* decision = std::getenv("PARTITA_PROGRESS");
    std::string other = decision != nullptr && std::string(decision) == "caller" ? "thread" : "caller";
    char* arguments[] = {other.data(), nullptr};
    const int code =
        MPI_Comm_spawn(child_program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    if (code != MPI_SUCCESS) {
      harness_barrier();
      GTEST_SKIP() << "this launcher could not spawn a process";
    }
    expect_refused(children);
    step("talking to the child");
    expect_plain_exchange(children);
    step("a collective call with the child");
    int none = 7, sum = 0;
    EXPECT_EQ(MPI_Allreduce(&none, &sum, 1, MPI_INT, MPI_SUM, children), MPI_SUCCESS);
    EXPECT_EQ(sum, 42);
    int refused_at_the_child = 0;
    MPI_Recv(&refused_at_the_child, 1, MPI_INT, 0, 2, children, MPI_STATUS_IGNORE);
    EXPECT_EQ(refused_at_the_child, 1);
    MPI_Comm merged = MPI_COMM_NULL;
    ASSERT_EQ(MPI_Intercomm_merge(children, 0, &merged), MPI_SUCCESS);
    expect_refused(merged);
    MPI_Comm_free(&merged);
    EXPECT_EQ(MPI_Comm_disconnect(&children), MPI_SUCCESS);
  }
  harness_barrier();
}

TEST(DropinProcesses, requests_on_a_connected_communicator_are_refused) {
  if (ranks() < 2) GTEST_SKIP() << "needs a rank that connects";
  if (rank() > 1) return;
  const ErrorsReturn handler(MPI_COMM_SELF);
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm other = MPI_COMM_NULL;
  step("MPI_Comm_connect");
  if (rank() == 0) {
    const int code = MPI_Open_port(MPI_INFO_NULL, port);
    if (code != MPI_SUCCESS) port[0] = '\0';
    PMPI_Send(port, sizeof port, MPI_CHAR, 1, 0, harness_comm());
    if (code != MPI_SUCCESS) GTEST_SKIP() << "this MPI could not open a port";
    ASSERT_EQ(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other), MPI_SUCCESS);
    MPI_Close_port(port);
  } else {
    PMPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, harness_comm(), MPI_STATUS_IGNORE);
    if (port[0] == '\0') GTEST_SKIP() << "rank 0 has no port";
    ASSERT_EQ(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other), MPI_SUCCESS);
  }
  expect_refused(other);
  expect_plain_exchange(other);
  EXPECT_EQ(MPI_Comm_disconnect(&other), MPI_SUCCESS);
}

#if MPI_VERSION >= 4
TEST(DropinProcesses, requests_on_a_communicator_of_a_session_are_refused) {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
  ASSERT_EQ(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_SUCCESS);
  ASSERT_EQ(MPI_Comm_create_from_group(group, "partita.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_SUCCESS);
  expect_refused(comm);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  EXPECT_EQ(MPI_Session_finalize(&session), MPI_SUCCESS);
}
#endif

}  // namespace
}  // namespace partita::test
