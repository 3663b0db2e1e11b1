// Descriptors between the sockets of two ranks, here of one process; and whether a rank lives.
#include "core/node_socket.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

namespace partita {
namespace {

class NodeSockets : public testing::Test {
 protected:
  void pass(std::uint64_t segment, DescriptorKind kind = DescriptorKind::host_segment) {
    from_.pass(1, kind, segment, 4096, file_.get());
  }
  std::vector<std::uint64_t> received(DescriptorKind kind = DescriptorKind::host_segment) {
    std::vector<std::uint64_t> segments;
    to_.receive(kind, [&](PassedDescriptor passed) { segments.push_back(passed.segment); });
    return segments;
  }

  const std::uint64_t job_ = 0xabcd00000000 + static_cast<std::uint64_t>(::getpid());
  NodeSocket from_{job_, 0};
  NodeSocket to_{job_, 1};
  UniqueFd file_{::memfd_create("partita-test", MFD_CLOEXEC)};
};

TEST_F(NodeSockets, taking_in_makes_room_for_what_waits_and_keeps_it_by_kind_and_in_order) {
  constexpr std::uint64_t count = 100;
  std::vector<std::uint64_t> passed;
  for (std::uint64_t i = 0; i < count; ++i) {
    pass(i, DescriptorKind::device_memory);
    passed.push_back(i);
  }
  EXPECT_FALSE(from_.flush(1)) << "a socket's queue is shorter than this";
  for (std::uint64_t i = 0; i < count && !from_.flush(1); ++i) EXPECT_TRUE(to_.take_in());
  EXPECT_TRUE(from_.flush(1));
  EXPECT_TRUE(received(DescriptorKind::host_segment).empty());
  EXPECT_EQ(received(DescriptorKind::device_memory), passed);
  EXPECT_FALSE(to_.take_in());
}

TEST_F(NodeSockets, what_comes_after_a_descriptor_that_cannot_be_used_is_kept) {
  for (const std::uint64_t segment : {1, 2, 3}) pass(segment);
  EXPECT_THROW(to_.receive(DescriptorKind::host_segment, [](PassedDescriptor) { throw std::runtime_error("no"); }),
               std::runtime_error);
  pass(4);
  EXPECT_EQ(received(), (std::vector<std::uint64_t>{2, 3, 4}));
}

TEST_F(NodeSockets, a_descriptor_that_found_none_free_is_told_as_lost) {
  pass(77);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(file_.get());
  ::close(lowest_free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(received().empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(to_.why_lost(DescriptorKind::host_segment, 0, 77).find("no file descriptor free"), std::string::npos);
  EXPECT_EQ(to_.why_lost(DescriptorKind::host_segment, 0, 78), "");
  EXPECT_EQ(to_.why_lost(DescriptorKind::device_memory, 0, 77), "");
}

TEST_F(NodeSockets, a_rank_whose_forked_child_lives_on_is_not_alive) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    const NodeSocket socket(job_, 2);
    const pid_t child = ::fork();
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    if (::write(pipe_ends[1], &child, sizeof child) < 0) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  pid_t child = -1;
  ASSERT_EQ(::read(pipe_ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_TRUE(from_.alive(2));
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::seconds(10);  // the child may not have run yet
  while (from_.alive(2) && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(from_.alive(2));
  EXPECT_TRUE(from_.alive(1)) << "the sockets of the process that forked are open still";
  ::kill(child, SIGKILL);
  for (const int end : pipe_ends) ::close(end);
}

}  // namespace
}  // namespace partita
