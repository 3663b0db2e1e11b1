// A sender that cannot connect as the receiver has chosen: both sides learn of it, and nobody waits in vain.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <atomic>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/told.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

std::atomic<bool> mpi_refuses_sends{false};
std::atomic<bool> mpi_refuses_starts{false};
std::atomic<bool> mpi_refuses_receives{false};

/// What an epoch of the receive ends with. What is known of its sender by then comes out of the start already, and of
/// the wait at the latest.
int outcome(Receiving<CFace>& recv) {
  const int code = CFace::start(&recv.request);
  return code == MPI_SUCCESS ? CFace::wait(&recv.request, MPI_STATUS_IGNORE) : code;
}

TEST(ConnectFailure, is_told_on_both_sides) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Sending<CFace> send;
  Receiving<CFace> recv;
  const bool sends = rank() == 0;
  mpi_refuses_sends = sends;
  if (sends) {
    send.init(4, 100, 1, 3);
    send.start();
    send.mark_all(1);
    harness_barrier();  // nothing is matched before, so that it is the wait that fails
    step("the wait of a send that cannot connect");
    EXPECT_ERROR(CFace::wait(&send.request, MPI_STATUS_IGNORE), MPI_ERR_NO_MEM, "Wait", "Send_init");
  } else {
    harness_barrier();
    recv.init(4, 100, 0, 3);
    step("the epoch of a receive whose sender cannot connect");
    EXPECT_ERROR(outcome(recv), MPI_ERR_NO_MEM, "rank 0, could not connect", "Send_init");
  }
  mpi_refuses_sends = false;
  if (sends) send.free();
  if (!sends) recv.free();
  RETURN_IF_FAILED();

  // The next pair has nothing to do with that.
  if (sends) {
    send.init(4, 100, 1, 3);
    send.start();
    send.mark_all(2);
    send.wait();
    send.free();
  } else {
    recv.init(4, 100, 0, 3);
    recv.start();
    recv.wait_for(2);
    recv.free();
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Forced to link mpi there is no other one; both sides say so.
TEST(LinkFailure, is_a_reason_against_the_link) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  Sending<CFace> send;
  Receiving<CFace> recv;
  mpi_refuses_receives = rank() == 1;
  int ended = MPI_SUCCESS;
  if (rank() == 0) {
    send.init(4, 100, 1, 4);
    send.start();
    harness_barrier();  // nothing is matched before
    ended = CFace::wait(&send.request, MPI_STATUS_IGNORE);
    send.free();
  } else {
    harness_barrier();
    recv.init(4, 100, 0, 4);
    ended = outcome(recv);
    recv.free();
  }
  mpi_refuses_receives = false;
  EXPECT_ERROR(ended, MPI_ERR_OTHER, "no link can move", "Recv_init");
}

/// Both sides can free the request, and neither waits for what will not come.
TEST(PutFailure, ends_the_request_on_both_sides) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  Sending<CFace> send;
  Receiving<CFace> recv;
  if (rank() == 0) {
    send.init(4, 100, 1, 5);
    send.start();
    ASSERT_OK(Partita_Pbuf_prepare(send.request));
    mpi_refuses_starts = true;
    const int marked = CFace::pready_range(0, 3, send.request);
    mpi_refuses_starts = false;
    EXPECT_ERROR(marked, MPI_ERR_NO_MEM, "Pready", "Start");
    step("the wait of a send whose put has failed");
    EXPECT_ERROR(CFace::wait(&send.request, MPI_STATUS_IGNORE), MPI_ERR_NO_MEM, "Wait", "Start");
    send.free();
  } else {
    recv.init(4, 100, 0, 5);
    recv.start();
    step("the wait of a receive whose sender could not put");
    EXPECT_ERROR(CFace::wait(&recv.request, MPI_STATUS_IGNORE), MPI_ERR_NO_MEM, "Wait", "rank 0, could not send");
    recv.free();
  }
}

/// With the number of the one after it the receive would wait in vain over links that look at it.
TEST(StartFailure, leaves_the_epoch_to_the_next_start) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  Sending<CFace> send;
  Receiving<CFace> recv;
  if (rank() == 0) {
    send.init(4, 100, 1, 6);
    for (std::uint64_t key = 1; key <= 2; ++key) {
      send.start();
      send.mark_all(key);
      send.wait();
    }
    send.free();
  } else {
    recv.init(4, 100, 0, 6);
    ASSERT_OK(Partita_Pbuf_prepare(recv.request));
    for (std::uint64_t key = 1; key <= 2; ++key) {
      mpi_refuses_starts = true;
      EXPECT_ERROR(CFace::start(&recv.request), MPI_ERR_NO_MEM, "Start");
      mpi_refuses_starts = false;
      EXPECT_EQ(told(recv.request, "partita_active"), "false");
      ASSERT_OK(Partita_Start(&recv.request));
      EXPECT_ERROR(CFace::start(&recv.request), MPI_ERR_REQUEST, "active already", "epoch " + std::to_string(key));
      ASSERT_OK(Partita_Wait(&recv.request, MPI_STATUS_IGNORE));
      EXPECT_TRUE(recv.holds_all(key));
    }
    recv.free();
  }
}

}  // namespace
}  // namespace partita::test

extern "C" int PMPI_Recv_init(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                              MPI_Request* request) {
  if (partita::test::mpi_refuses_receives) return MPI_ERR_NO_MEM;
  using RecvInit = int (*)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  return reinterpret_cast<RecvInit>(dlsym(RTLD_NEXT, "PMPI_Recv_init"))(buffer, count, type, source, tag, comm,
                                                                        request);
}

extern "C" int PMPI_Start(MPI_Request* request) {
  if (partita::test::mpi_refuses_starts) return MPI_ERR_NO_MEM;
  return reinterpret_cast<int (*)(MPI_Request*)>(dlsym(RTLD_NEXT, "PMPI_Start"))(request);
}

extern "C" int PMPI_Startall(int count, MPI_Request requests[]) {
  if (partita::test::mpi_refuses_starts) return MPI_ERR_NO_MEM;
  return reinterpret_cast<int (*)(int, MPI_Request[])>(dlsym(RTLD_NEXT, "PMPI_Startall"))(count, requests);
}

/// Stands before the MPI's own.
extern "C" int PMPI_Send_init(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                              MPI_Request* request) {
  if (partita::test::mpi_refuses_sends) return MPI_ERR_NO_MEM;
  using SendInit = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  const auto of_mpi = reinterpret_cast<SendInit>(dlsym(RTLD_NEXT, "PMPI_Send_init"));
  return of_mpi(buffer, count, type, dest, tag, comm, request);
}
