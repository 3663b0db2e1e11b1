// The completion calls and their relatives on null, inactive, MPI_PROC_NULL and active requests.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <string>
#include <vector>

#include "completion_calls.hpp"
#include "support/completion.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/sanitized.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

TYPED_TEST_SUITE(CompletionCalls, Faces, FaceNames);

TYPED_TEST(CompletionCalls, null_requests_are_complete) {
  this->expect_nothing_active({TypeParam::null(), TypeParam::null(), TypeParam::null()});
  this->expect_nothing_active({});
}

TYPED_TEST(CompletionCalls, inactive_requests_are_complete) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 100, this->right(), 3);
  recv.init(2, 100, this->left(), 3);
  RETURN_IF_FAILED();
  this->expect_nothing_active({send.request, TypeParam::null(), recv.request});
  int arrived = 0;
  EXPECT_OK(TypeParam::parrived(recv.request, 1, &arrived));
  EXPECT_EQ(arrived, 1) << "MPI-4, 4.2.2: on an inactive request the flag is true";
  for (std::uint64_t key = 1; key < 3; ++key) {
    run_epoch(send, recv, key);
    RETURN_IF_FAILED();
    this->expect_nothing_active({recv.request, send.request, TypeParam::null()});
    EXPECT_OK(TypeParam::parrived(recv.request, 0, &arrived));
    EXPECT_EQ(arrived, 1);
  }
  send.free();
  recv.free();
}

TYPED_TEST(CompletionCalls, requests_to_proc_null_complete_at_once_with_its_status) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(4, 100, MPI_PROC_NULL, 3);
  recv.init(3, 100, MPI_PROC_NULL, 3);
  RETURN_IF_FAILED();
  this->expect_nothing_active({send.request, recv.request});
  for (int how = 0; how < completion_count; ++how) {
    SCOPED_TRACE(name_of(static_cast<Completion>(how)));
    send.start();
    recv.start();
    EXPECT_OK(TypeParam::pready(2, send.request));
    EXPECT_OK(TypeParam::pready_range(0, 1, send.request));
    const int last = 3;
    EXPECT_OK(TypeParam::pready_list(1, &last, send.request));
    EXPECT_TRUE(recv.arrived(2));
    std::vector<typename TypeParam::Request> requests = {send.request, recv.request};
    std::vector<MPI_Status> statuses(2, filled_status());
    complete<TypeParam>(static_cast<Completion>(how), requests, statuses);
    RETURN_IF_FAILED();
    EXPECT_EQ(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
    EXPECT_EQ(statuses[1].MPI_TAG, MPI_ANY_TAG);
    int count = -1;
    MPI_Get_count(&statuses[1], MPI_BYTE, &count);
    EXPECT_EQ(count, 0);
    EXPECT_TRUE(recv.holds(0, 0) == false) << "a receive from MPI_PROC_NULL writes nothing";
  }
  send.free();
  recv.free();
}

/// Communication with MPI_PROC_NULL has no effect (MPI-4, section 3.10).
TYPED_TEST(CompletionCalls, marks_of_a_send_to_proc_null_do_nothing) {
  Sending<TypeParam> send;
  send.init(4, 100, MPI_PROC_NULL, 3);
  RETURN_IF_FAILED();
  for (int marks = 0; marks < 3; ++marks) {  // none; some, twice; all, and after another thread's Test
    send.start();
    for (int twice = 0; marks > 0 && twice < 2; ++twice) EXPECT_OK(TypeParam::pready(2, send.request));
    if (marks > 0) {
      EXPECT_OK(TypeParam::pready_range(1, 3, send.request));
    }
    int flag = 0;
    EXPECT_OK(TypeParam::test(&send.request, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 1);
    if (marks == 2) {
      EXPECT_OK(TypeParam::pready_range(0, 3, send.request));
    }
  }
  send.free();
}

TYPED_TEST(CompletionCalls, an_active_request_among_null_and_inactive_ones_is_found) {
  for (int how = 0; how < completion_count; ++how) {
    const auto call = available<TypeParam>(static_cast<Completion>(how));
    SCOPED_TRACE(name_of(call));
    Sending<TypeParam> send, idle;
    Receiving<TypeParam> recv;
    send.init(2, 5000, this->right(), 3);
    recv.init(4, 2500, this->left(), 3);
    idle.init(1, 10, MPI_PROC_NULL, 3);
    RETURN_IF_FAILED();
    for (std::uint64_t key = 1; key <= 2; ++key) {
      recv.start();
      send.start();
      send.mark_all(key);
      std::vector<typename TypeParam::Request> requests = {TypeParam::null(), recv.request, idle.request};
      std::vector<MPI_Status> statuses(3, filled_status());
      const bool one_by_one = call == Completion::waitany || call == Completion::waitsome ||
                              call == Completion::testany || call == Completion::testsome ||
                              call == Completion::get_status_any || call == Completion::get_status_some;
      if (one_by_one) {
        int index = -1, flag = 0, found = 0;
        MPI_Status status = filled_status();
        std::vector<int> indices(3);
        if (call == Completion::waitany) {
          ASSERT_OK(TypeParam::waitany(3, requests.data(), &index, &status));
        }
        while (call == Completion::testany && flag == 0) {
          ASSERT_OK(TypeParam::testany(3, requests.data(), &index, &flag, &status));
          sched_yield();
        }
        if (call == Completion::waitsome) {
          ASSERT_OK(TypeParam::waitsome(3, requests.data(), &found, indices.data(), statuses.data()));
        }
        while (call == Completion::testsome && found == 0) {
          ASSERT_OK(TypeParam::testsome(3, requests.data(), &found, indices.data(), statuses.data()));
          sched_yield();
        }
        if constexpr (TypeParam::has_statuses_of_several) {
          while (call == Completion::get_status_any && flag == 0) {
            ASSERT_OK(TypeParam::get_status_any(3, requests.data(), &index, &flag, &status));
            sched_yield();
          }
          while (call == Completion::get_status_some && found == 0) {
            ASSERT_OK(TypeParam::get_status_some(3, requests.data(), &found, indices.data(), statuses.data()));
            sched_yield();
          }
          if (call == Completion::get_status_any || call == Completion::get_status_some) {
            ASSERT_OK(TypeParam::wait(&requests[1], MPI_STATUS_IGNORE));
          }
        }
        if (call == Completion::waitsome || call == Completion::testsome || call == Completion::get_status_some) {
          ASSERT_EQ(found, 1);
          index = indices[0];
          status = statuses[0];
        }
        EXPECT_EQ(index, 1);
        EXPECT_EQ(status.MPI_SOURCE, this->left());
        EXPECT_EQ(status.MPI_TAG, 3);
      } else {
        complete<TypeParam>(call, requests, statuses);
        expect_empty(statuses[0]);
        EXPECT_EQ(statuses[1].MPI_SOURCE, this->left());
        int count = -1;
        MPI_Get_count(&statuses[1], MPI_BYTE, &count);
        EXPECT_EQ(count, 10000);
        expect_empty(statuses[2]);
      }
      EXPECT_EQ(requests[1], recv.request) << "a persistent request survives";
      EXPECT_TRUE(recv.holds_all(key));
      send.wait();
      RETURN_IF_FAILED();
    }
    send.free();
    recv.free();
    idle.free();
  }
}

TYPED_TEST(CompletionCalls, an_incomplete_request_is_not_reported) {
  if (ranks() < 2) GTEST_SKIP() << "needs a sender that waits";
  if (rank() > 1) return;
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 0) {
    send.init(2, 3000, 1, 3);
    for (std::uint64_t key = 1; key <= 3; ++key) {
      send.start();
      send.mark(1, key);
      for (int i = 0; i < 20; ++i) {
        int flag = 0;
        ASSERT_OK(TypeParam::test(&send.request, &flag, MPI_STATUS_IGNORE));
        ASSERT_EQ(flag, 0) << "a send completes only when all its partitions were marked";
        ASSERT_OK(TypeParam::get_status(send.request, &flag, MPI_STATUS_IGNORE));
        ASSERT_EQ(flag, 0);
      }
      MPI_Recv(nullptr, 0, MPI_BYTE, 1, 900, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      send.mark(0, key);
      send.wait();
      RETURN_IF_FAILED();
    }
    send.free();
    return;
  }
  recv.init(2, 3000, 0, 3);
  for (std::uint64_t key = 1; key <= 3; ++key) {
    recv.start();
    RETURN_IF_FAILED();
    std::vector<typename TypeParam::Request> requests = {recv.request};
    for (int i = 0; i < 20; ++i) {
      int flag = 1, index = 0, found = 1, indices[1];
      ASSERT_OK(TypeParam::test(requests.data(), &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 0);
      flag = 1;
      ASSERT_OK(TypeParam::testall(1, requests.data(), &flag, MPI_STATUSES_IGNORE));
      ASSERT_EQ(flag, 0);
      flag = 1;
      ASSERT_OK(TypeParam::testany(1, requests.data(), &index, &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 0);
      ASSERT_EQ(index, MPI_UNDEFINED);
      ASSERT_OK(TypeParam::testsome(1, requests.data(), &found, indices, MPI_STATUSES_IGNORE));
      ASSERT_EQ(found, 0);
      flag = 1;
      ASSERT_OK(TypeParam::get_status(recv.request, &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 0);
    }
    MPI_Send(nullptr, 0, MPI_BYTE, 0, 900, MPI_COMM_WORLD);
    recv.wait_for(key);
    RETURN_IF_FAILED();
  }
  recv.free();
}

TYPED_TEST(CompletionCalls, get_status_tells_of_completion_and_leaves_the_request_active) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 3000, this->right(), 3);
  recv.init(2, 3000, this->left(), 3);
  for (std::uint64_t key = 1; key <= 3; ++key) {
    recv.start();
    send.start();
    send.mark_all(key);
    RETURN_IF_FAILED();
    for (int again = 0; again < 2; ++again) {
      int flag = 0;
      MPI_Status status = filled_status();
      for (; flag == 0; sched_yield()) ASSERT_OK(TypeParam::get_status(recv.request, &flag, &status));
      EXPECT_EQ(status.MPI_SOURCE, this->left());
      EXPECT_EQ(status.MPI_TAG, 3);
      EXPECT_TRUE(recv.holds_all(key));
    }
    int flag = 0;
    MPI_Status status = filled_status();
    ASSERT_OK(TypeParam::test(&recv.request, &flag, &status));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(status.MPI_SOURCE, this->left()) << "the request was still active, so its status is not empty";
    send.wait();
  }
  send.free();
  recv.free();
}

/// Programs free a receive once Parrived has said yes to all, and a send that a test found complete.
TYPED_TEST(CompletionCalls, a_complete_request_is_freed_though_nobody_waited) {
  for (const std::int64_t partition_bytes : {100, 100 * 1000}) {
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    send.init(2, partition_bytes, this->right(), 3);
    recv.init(2, partition_bytes, this->left(), 3);
    recv.start();
    send.start();
    send.mark_all(4);
    for (int p = 0; p < 2; ++p) recv.await(p, 4);
    int flag = 0;
    for (; flag == 0; sched_yield()) ASSERT_OK(TypeParam::get_status(send.request, &flag, MPI_STATUS_IGNORE));
    EXPECT_OK(TypeParam::free(&recv.request));
    EXPECT_OK(TypeParam::free(&send.request));
    EXPECT_EQ(recv.request, TypeParam::null());
    EXPECT_TRUE(recv.holds_all(4));
  }
}

TYPED_TEST(CompletionCalls, hundreds_of_requests_complete_in_one_call) {
  for (int how = 0; how < completion_count; ++how) {
    SCOPED_TRACE(name_of(static_cast<Completion>(how)));
    constexpr auto each_way = repetitions<std::size_t>(100, 40);
    std::vector<Sending<TypeParam>> sends(each_way);
    std::vector<Receiving<TypeParam>> recvs(each_way);
    for (auto& send : sends) send.init(2, 100, this->right(), 3);
    for (auto& recv : recvs) recv.init(2, 100, this->left(), 3);
    RETURN_IF_FAILED();
    std::vector<typename TypeParam::Request> requests;
    for (auto& send : sends) requests.push_back(send.request);
    for (auto& recv : recvs) requests.push_back(recv.request);
    for (int epoch = 0; epoch < 2; ++epoch) {
      ASSERT_OK(TypeParam::startall(static_cast<int>(requests.size()), requests.data()));
      for (std::size_t i = 0; i < sends.size(); ++i) sends[i].mark_all(i);
      std::vector<MPI_Status> statuses;
      complete<TypeParam>(static_cast<Completion>(how), requests, statuses);
      for (std::size_t i = 0; i < recvs.size(); ++i) ASSERT_TRUE(recvs[i].holds_all(i));
      RETURN_IF_FAILED();
    }
    for (auto& send : sends) send.free();
    for (auto& recv : recvs) recv.free();
  }
}

}  // namespace
}  // namespace partita::test
