// Loops of tests are waits, and are limited in time as such (run with PARTITA_TIMEOUT set to half a second; to two
// and four where no look may fail). A program that computes between its tests does not wait.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <thread>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::chrono::nanoseconds cpu_time_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Takes so much processor time, however long the system lets others run meanwhile.
void compute_for(std::chrono::microseconds time) {
  for (const auto end = cpu_time_of_this_thread() + time; cpu_time_of_this_thread() < end;) {
  }
}

template <class Face>
class LoopWatch : public testing::Test {
 protected:
  void TearDown() override {
    if (recv_.request != Face::null()) recv_.free();
    if (send_.request != Face::null()) send_.free();
  }

  /// A receive for which nothing comes.
  void start_receive() {
    recv_.init(2, 100, rank(), 75);
    recv_.start();
  }
  /// Sends what the receive waits for.
  void end_receive() {
    send_.init(2, 100, rank(), 75);
    send_.start();
    send_.mark_all(3);
    recv_.wait_for(3);
    send_.wait();
  }
  /// Frees the receive after its failed wait. The send that meets it hears of it, at the latest when it waits.
  void give_up_receive() {
    recv_.free();
    recv_.request = Face::null();
    send_.init(2, 100, rank(), 75);
    int code = Face::start(&send_.request);
    if (code == MPI_SUCCESS) code = Face::wait(&send_.request, MPI_STATUS_IGNORE);
    EXPECT_NE(code, MPI_SUCCESS);
    send_.free();
    send_.request = Face::null();
  }
  /// Looks until the call fails, or for `limit`.
  int look_until(const std::function<int()>& look, milliseconds limit) {
    int code = MPI_SUCCESS;
    for (const auto end = Clock::now() + limit; code == MPI_SUCCESS && Clock::now() < end;) code = look();
    return code;
  }

  Sending<Face> send_;
  Receiving<Face> recv_;

 private:
  ErrorsReturn errors_{MPI_COMM_WORLD};
};

TYPED_TEST_SUITE(LoopWatch, Faces, FaceNames);

TYPED_TEST(LoopWatch, every_kind_of_loop_ends_at_the_time_limit) {
  for (int kind = 0; kind < 6; ++kind) {
    step("loop " + std::to_string(kind));
    SCOPED_TRACE("loop " + std::to_string(kind));
    this->start_receive();
    RETURN_IF_FAILED();
    auto& request = this->recv_.request;
    int flag = 0, index = 0, count = 0;
    MPI_Status status;
    const auto look = [&] {
      switch (kind) {
        case 0:
          std::this_thread::yield();
          return TypeParam::test(&request, &flag, MPI_STATUS_IGNORE);
        case 1:
          std::this_thread::sleep_for(milliseconds(1));
          return TypeParam::parrived(request, 1, &flag);
        case 2:
          return TypeParam::testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
        case 3:
          return TypeParam::testsome(1, &request, &count, &index, &status);
        case 4:
          return TypeParam::testall(1, &request, &flag, &status);
        default:
          std::this_thread::sleep_for(milliseconds(20));
          return TypeParam::get_status(request, &flag, MPI_STATUS_IGNORE);
      }
    };
    const auto begin = Clock::now();
    int code = this->look_until(look, milliseconds(8000));
    EXPECT_GT(Clock::now() - begin, milliseconds(450));
    if (kind == 4) {
      EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS);
      code = status.MPI_ERROR;
    }
    EXPECT_ERROR(code, MPI_ERR_OTHER, "the wait took longer than 0.5 s (PARTITA_TIMEOUT)", "tag 75");
    if (kind == 1 || kind == 5) {
      EXPECT_ERROR(TypeParam::wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "PARTITA_TIMEOUT");
    }
    this->give_up_receive();
    RETURN_IF_FAILED();
  }
}

/// As where a thread needs long to wake up, which counts as its time on some machines.
TYPED_TEST(LoopWatch, a_program_that_sleeps_and_computes_a_little_waits) {
  this->start_receive();
  RETURN_IF_FAILED();
  int flag = 0;
  const auto look = [&] {
    std::this_thread::sleep_for(milliseconds(20));
    compute_for(std::chrono::microseconds(300));
    return TypeParam::get_status(this->recv_.request, &flag, MPI_STATUS_IGNORE);
  };
  EXPECT_ERROR(this->look_until(look, milliseconds(8000)), MPI_ERR_OTHER, "PARTITA_TIMEOUT");
  EXPECT_ERROR(TypeParam::wait(&this->recv_.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "PARTITA_TIMEOUT");
  this->give_up_receive();
}

TYPED_TEST(LoopWatch, a_program_that_computes_between_its_tests_does_not_wait) {
  this->start_receive();
  RETURN_IF_FAILED();
  int flag = 0;
  EXPECT_OK(this->look_until(
      [&] {
        compute_for(milliseconds(1));
        return TypeParam::test(&this->recv_.request, &flag, MPI_STATUS_IGNORE);
      },
      milliseconds(2500)));
  this->end_receive();
}

/// Most of the time it sleeps, or the system lets others run.
TYPED_TEST(LoopWatch, a_program_that_computes_now_and_then_does_not_wait) {
  this->start_receive();
  RETURN_IF_FAILED();
  int flag = 0;
  EXPECT_OK(this->look_until(
      [&] {
        std::this_thread::sleep_for(milliseconds(300));
        compute_for(milliseconds(10));
        return TypeParam::test(&this->recv_.request, &flag, MPI_STATUS_IGNORE);
      },
      milliseconds(3500)));
  this->end_receive();
}

/// What arrives now and then ends no wait, but each time another one begins. Together they take longer than the limit,
/// and each so much less that a thread which the system keeps from running for three seconds is not over it.
TYPED_TEST(LoopWatch, what_gets_on_is_not_ended) {
  const MPI_Info info = info_with("partita_transport_partitions", "8");
  this->recv_.init(8, 100, rank(), 76);
  this->send_.init(8, 100, rank(), 76, MPI_COMM_WORLD, info);
  MPI_Info info_to_free = info;
  MPI_Info_free(&info_to_free);
  this->recv_.start();
  this->send_.start();
  for (int p = 0; p < 8; ++p) {
    const auto begin = Clock::now();
    int flag = 0;
    EXPECT_OK(this->look_until(
        [&] {
          std::this_thread::sleep_for(milliseconds(1));
          return TypeParam::test(&this->recv_.request, &flag, MPI_STATUS_IGNORE);
        },
        milliseconds(600)));
    EXPECT_EQ(flag, 0);
    EXPECT_GE(Clock::now() - begin, milliseconds(600));
    this->send_.mark(p, 5);
  }
  this->recv_.wait_for(5);
  this->send_.wait();
}

}  // namespace
}  // namespace partita::test
