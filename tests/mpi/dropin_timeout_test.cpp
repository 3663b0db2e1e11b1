// Waits for both kinds of requests end at the time limit too (run with PARTITA_TIMEOUT set to a second).
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>
#include <partita/partita.h>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

void expect_time_limit(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  EXPECT_NE(std::string::npos, std::string(text).find("PARTITA_TIMEOUT")) << text;
}

/// A partitioned receive and a receive of the MPI's for which nothing is ever sent.
class DropinTimeout : public testing::Test {
 protected:
  enum Place { ours, foreign, places };

  DropinTimeout() {
    for (const MPI_Comm comm : {MPI_COMM_SELF, MPI_COMM_WORLD}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Precv_init(&in_[ours], 1, 1, MPI_INT, rank(), 70, MPI_COMM_WORLD, MPI_INFO_NULL, &requests_[ours]);
    MPI_Start(&requests_[ours]);
    MPI_Irecv(&in_[foreign], 1, MPI_INT, rank(), 71, MPI_COMM_WORLD, &requests_[foreign]);
  }
  ~DropinTimeout() override {
    EXPECT_EQ(MPI_SUCCESS, MPI_Cancel(&requests_[foreign]));
    EXPECT_EQ(MPI_SUCCESS, MPI_Wait(&requests_[foreign], MPI_STATUS_IGNORE));
    EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&requests_[ours]));
    for (const MPI_Comm comm : {MPI_COMM_SELF, MPI_COMM_WORLD}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  }

  std::array<MPI_Request, places> requests_ = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

 private:
  std::array<int, places> in_{};
};

TEST_F(DropinTimeout, waitall_says_what_became_of_each_request) {
  std::array<MPI_Status, places> statuses{};
  EXPECT_EQ(MPI_ERR_IN_STATUS, MPI_Waitall(places, requests_.data(), statuses.data()));
  expect_time_limit(statuses[ours].MPI_ERROR);
  EXPECT_EQ(MPI_ERR_PENDING, statuses[foreign].MPI_ERROR);
}

TEST_F(DropinTimeout, waitany_ends) {
  int index = -1;
  expect_time_limit(MPI_Waitany(places, requests_.data(), &index, MPI_STATUS_IGNORE));
}

TEST_F(DropinTimeout, waitsome_ends) {
  int done = -1;
  std::array<int, places> indices{};
  expect_time_limit(MPI_Waitsome(places, requests_.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
}

/// A mixed array grows shorter while it is waited for, and the request of an Imatch in it is freed before the limit.
/// The wait knows nothing of it any more: the match is begun by what the MPI runs when it looks at its own part, so
/// that the request is complete one look later than the first of the array.
TEST(ShorterArray, a_wait_does_not_look_at_a_request_that_it_has_freed) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  struct Ends {
    int in = 0, out = 0;
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL, matching_send = MPI_REQUEST_NULL;
  } ends;
  ASSERT_OK(MPI_Recv_init(&ends.in, 1, MPI_INT, rank(), 73, MPI_COMM_WORLD, &ends.receive));
  ASSERT_OK(MPI_Send_init(&ends.out, 1, MPI_INT, rank(), 73, MPI_COMM_WORLD, &ends.send));
  enum { complete, open, matching, generalized, foreign, places };
  std::array<MPI_Request, places> requests;
  std::array<int, places> in{};
  MPI_Request peer = MPI_REQUEST_NULL;
  ASSERT_OK(
      MPI_Precv_init(&in[complete], 1, 0, MPI_INT, rank(), 74, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[complete]));
  ASSERT_OK(MPI_Psend_init(&in[complete], 1, 0, MPI_INT, rank(), 74, MPI_COMM_WORLD, MPI_INFO_NULL, &peer));
  ASSERT_OK(MPI_Start(&requests[complete]));
  ASSERT_OK(MPI_Start(&peer));
  ASSERT_OK(MPI_Pready(0, peer));
  for (int arrived = 0; arrived == 0;) ASSERT_OK(MPI_Parrived(requests[complete], 0, &arrived));
  ASSERT_OK(MPI_Precv_init(&in[open], 1, 1, MPI_INT, rank(), 75, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[open]));
  ASSERT_OK(MPI_Start(&requests[open]));
  ASSERT_OK(MPIX_Imatch(&ends.receive, &requests[matching]));
  const auto begin_other_match = [](void* of, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    Ends& to_match = *static_cast<Ends*>(of);
    return MPIX_Imatch(&to_match.send, &to_match.matching_send);
  };
  ASSERT_OK(MPI_Grequest_start(
      begin_other_match, [](void*) { return MPI_SUCCESS; }, [](void*, int) { return MPI_SUCCESS; }, &ends,
      &requests[generalized]));
  ASSERT_OK(MPI_Grequest_complete(requests[generalized]));
  ASSERT_OK(MPI_Irecv(&in[foreign], 1, MPI_INT, rank(), 75, MPI_COMM_WORLD, &requests[foreign]));

  std::array<MPI_Status, places> statuses{};
  EXPECT_EQ(MPI_ERR_IN_STATUS, MPI_Waitall(places, requests.data(), statuses.data()));
  expect_time_limit(statuses[open].MPI_ERROR);
  for (const int done : {complete, matching, generalized}) EXPECT_EQ(MPI_SUCCESS, statuses[done].MPI_ERROR) << done;
  EXPECT_EQ(MPI_ERR_PENDING, statuses[foreign].MPI_ERROR);
  EXPECT_EQ(MPI_REQUEST_NULL, requests[matching]);

  EXPECT_OK(MPI_Cancel(&requests[foreign]));
  std::array left = {requests[foreign], ends.matching_send, peer};
  EXPECT_OK(MPI_Waitall(3, left.data(), MPI_STATUSES_IGNORE));
  for (MPI_Request* each : {&requests[complete], &requests[open], &peer, &ends.receive, &ends.send})
    EXPECT_OK(MPI_Request_free(each));
}

/// What the peer does offer, where it is something else.
TEST(Unmatched, a_receive_says_what_its_peer_offers_instead) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  Sending<CFace> other, third;
  Receiving<CFace> recv;
  other.init(4, 100, rank(), 81);
  third.init(2, 7, rank(), 82);
  recv.init(4, 25, rank(), 80);
  recv.start();
  const int code = CFace::wait(&recv.request, MPI_STATUS_IGNORE);
  const std::string sentence = sentence_of(code);
  const bool cut_short = sentence.size() + 1 >= MPI_MAX_ERROR_STRING;
  EXPECT_NE(sentence.find("tag 80"), std::string::npos) << sentence;
  for (const char* words :
       {"number 1 of this tag, 100 bytes", "tag 81, 400 bytes in 4 partitions", "tag 82, 14 bytes"}) {
    EXPECT_TRUE(cut_short || sentence.find(words) != std::string::npos) << sentence << "\nexpected is: " << words;
  }
  recv.free();
  other.free();
  third.free();
}

/// The clock is not asked at each poll, but a crowded machine makes polls slow.
TEST(SlowPolls, a_wait_ends_in_time) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Partita_Request request = PARTITA_REQUEST_NULL;
  int data = 0;
  ASSERT_EQ(MPI_SUCCESS, Partita_Precv_init(&data, 1, 1, MPI_INT, rank(), 72, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
  int polls = 0;
  const auto slow_poll = [](void* count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++*static_cast<int*>(count);
    return 0;
  };
  expect_time_limit(Partita_Wait_until(1, &request, slow_poll, &polls));
  EXPECT_LT(polls, 250) << "of 10 ms or more, with a limit of 1 s";
  EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Memory whose last page stops the thread that first reads there until release(). One at a time.
class StoppingMemory {
 public:
  explicit StoppingMemory(std::size_t size_bytes)
      : size_bytes_(size_bytes),
        base_(::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    page_bytes_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    page_ = reinterpret_cast<std::uintptr_t>(base_) + size_bytes - page_bytes_;
    stopped_ = released_ = false;
    struct sigaction action{};
    action.sa_sigaction = stop;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, &before_);
    ::mprotect(reinterpret_cast<void*>(page_.load()), page_bytes_, PROT_NONE);
  }
  ~StoppingMemory() {
    release();
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(base_, size_bytes_);
  }
  StoppingMemory(const StoppingMemory&) = delete;
  StoppingMemory& operator=(const StoppingMemory&) = delete;

  void* base() const { return base_; }
  static bool has_stopped_a_thread() { return stopped_; }
  static void release() { released_ = true; }

 private:
  static void stop(int, siginfo_t* info, void*) {
    if (reinterpret_cast<std::uintptr_t>(info->si_addr) - page_ >= page_bytes_) {
      ::signal(SIGSEGV, SIG_DFL);  // another mistake: it strikes again when this returns
      return;
    }
    stopped_ = true;
    const timespec nap{0, 1000000};
    while (!released_) ::nanosleep(&nap, nullptr);
    ::mprotect(reinterpret_cast<void*>(page_.load()), page_bytes_, PROT_READ | PROT_WRITE);
  }

  static inline std::atomic<std::uintptr_t> page_{0};
  static inline std::atomic<std::size_t> page_bytes_{0};
  static inline std::atomic<bool> stopped_{false};
  static inline std::atomic<bool> released_{false};
  std::size_t size_bytes_;
  void* base_;
  struct sigaction before_{};
};

/// What was marked in an epoch that the sender gave up does not leave any more, and there is no epoch after it.
class GivenUpEpoch : public testing::Test {
 protected:
  static constexpr std::int64_t partition_bytes = 256 * 1024;  // leaves only when the receiver is there

  GivenUpEpoch() { MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }
  ~GivenUpEpoch() override {
    if (send_.request != CFace::null()) send_.free();
    if (recv_.request != CFace::null()) recv_.free();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  }
  void init_send() { send_.init(4, partition_bytes, rank(), 73); }
  void init_recv() { recv_.init(4, partition_bytes, rank(), 73); }
  void give_up_send() {
    send_.start();
    send_.mark_all(1);
    expect_time_limit(CFace::wait(&send_.request, MPI_STATUS_IGNORE));
  }
  /// The receiver hears of it, at its start or when it looks.
  void expect_no_arrival() {
    int code = CFace::start(&recv_.request);
    if (code == MPI_SUCCESS) {
      for (int looks = 0; code == MPI_SUCCESS && looks < 1000; ++looks) {
        int flag = 0;
        code = CFace::parrived(recv_.request, looks % 4, &flag);
        EXPECT_EQ(flag, 0) << "partition " << looks % 4 << ", whose epoch was given up";
      }
      code = CFace::wait(&recv_.request, MPI_STATUS_IGNORE);
    }
    EXPECT_ERROR(code, MPI_ERR_OTHER, "the sender, rank " + std::to_string(rank()) + ", gave its request up");
    expect_time_limit(code);
  }
  void expect_no_other_epoch() {
    EXPECT_ERROR(CFace::start(&send_.request), MPI_ERR_REQUEST, "Start", "ended with an error", "make it anew");
    const std::string sentence = sentence_of(CFace::start(&recv_.request));
    EXPECT_TRUE(sentence.find("ended with an error") != std::string::npos ||
                sentence.find("gave its request up") != std::string::npos)
        << sentence;
  }

  Sending<CFace> send_;
  Receiving<CFace> recv_;
};

TEST_F(GivenUpEpoch, marks_that_waited_for_the_receiver_are_gone) {
  init_send();
  init_recv();
  RETURN_IF_FAILED();
  give_up_send();
  expect_no_arrival();
  expect_no_other_epoch();
}

/// A thread is still within Pready_range, where it packs, when another one's wait runs out of time.
TEST_F(GivenUpEpoch, marks_under_way_are_gone) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  constexpr int block_bytes = partition_bytes / 2;
  StoppingMemory data(std::size_t{4} * 3 * block_bytes);
  MPI_Datatype two_blocks = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, block_bytes, 2 * block_bytes, MPI_BYTE, &two_blocks);
  MPI_Type_commit(&two_blocks);
  ASSERT_OK(
      CFace::psend_init(data.base(), 4, 1, two_blocks, rank(), 73, MPI_COMM_WORLD, MPI_INFO_NULL, &send_.request));
  MPI_Type_free(&two_blocks);
  init_recv();
  RETURN_IF_FAILED();
  send_.start();
  int marked = MPI_ERR_OTHER;
  std::thread marker([&] { marked = CFace::pready_range(0, 3, send_.request); });
  while (!StoppingMemory::has_stopped_a_thread()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_time_limit(CFace::wait(&send_.request, MPI_STATUS_IGNORE));
  StoppingMemory::release();
  marker.join();
  EXPECT_OK(marked);
  expect_no_arrival();
  expect_no_other_epoch();
}

TEST_F(GivenUpEpoch, marks_that_waited_for_the_match_are_gone) {
  init_send();
  RETURN_IF_FAILED();
  give_up_send();
  init_recv();
  expect_no_arrival();
  expect_no_other_epoch();
}

TEST_F(GivenUpEpoch, has_not_arrived) {
  init_send();
  init_recv();
  RETURN_IF_FAILED();
  recv_.start();
  expect_time_limit(CFace::wait(&recv_.request, MPI_STATUS_IGNORE));
  int flag = 0;
  EXPECT_ERROR(CFace::parrived(recv_.request, 0, &flag), MPI_ERR_REQUEST, "Parrived", "ended with an error");
}

/// Its memory is the program's again.
TEST_F(GivenUpEpoch, nothing_is_put_once_the_receive_is_known_to_be_free) {
  init_send();
  init_recv();
  RETURN_IF_FAILED();
  send_.start();
  recv_.start();
  expect_time_limit(CFace::wait(&recv_.request, MPI_STATUS_IGNORE));
  RETURN_IF_FAILED();
  recv_.free();
  recv_.request = CFace::null();
  Sending<CFace> second;
  Receiving<CFace> of_second;
  second.init(1, 100, rank(), 74);
  of_second.init(1, 100, rank(), 74);
  RETURN_IF_FAILED();
  run_epoch(second, of_second, 3);  // the word of the free comes before
  second.free();
  of_second.free();
  EXPECT_ERROR(CFace::pready_range(0, 3, send_.request), MPI_ERR_OTHER, "Pready_range", "the receiver",
               "gave its request up", "PARTITA_TIMEOUT");
  EXPECT_ERROR(CFace::wait(&send_.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "the receiver",
               "gave its request up", "PARTITA_TIMEOUT");
}

}  // namespace
}  // namespace partita::test
