// Descriptors between the sockets of two ranks, here of one process; and whether a rank lives.
#include "core/node_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/node_folder.hpp"

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

  const std::string folder_ = make_node_folder();
  NodeSocket from_{folder_, 0};
  NodeSocket to_{folder_, 1};
  UniqueFd file_{::memfd_create("partita-test", MFD_CLOEXEC)};
};

/// Folders as jobs leave them, in a place of their own.
class LeftBehind : public testing::Test {
 protected:
  LeftBehind() {
    char place[] = "/tmp/partita-test-XXXXXX";
    place_ = ::mkdtemp(place);
    ::setenv("XDG_RUNTIME_DIR", place_.c_str(), 1);
  }
  ~LeftBehind() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(place_);
  }

  /// A folder of two ranks that were killed.
  std::string made_by_killed_ranks() {
    std::string folder;
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t job = ::fork();
    if (job == 0) {
      folder = make_node_folder();
      const NodeSocket first(folder, 0), second(folder, 1);
      if (::write(ends[1], folder.data(), folder.size()) < 0) ::_exit(1);
      ::raise(SIGKILL);
    }
    ::close(ends[1]);
    char name[200] = "";
    const auto length = ::read(ends[0], name, sizeof name);
    ::close(ends[0]);
    ::waitpid(job, nullptr, 0);
    return {name, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
  }
  static void make_old(const std::string& folder) {
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(folder, now - std::chrono::hours(1));
  }

  std::string place_;
};

TEST_F(LeftBehind, a_killed_job_s_folder_is_removed_by_a_later_job) {
  const std::string left = made_by_killed_ranks();
  ASSERT_TRUE(std::filesystem::exists(left + "/1")) << left;
  make_old(left);
  const std::string next = make_node_folder();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(is_private_folder(next));
}

TEST_F(LeftBehind, what_may_be_in_use_or_is_not_ours_stays) {
  const std::string young = made_by_killed_ranks();
  const std::string alive = make_node_folder();
  const NodeSocket socket(alive, 1);
  const std::string with_a_file = made_by_killed_ranks();
  std::ofstream(with_a_file + "/notes") << "a user's";
  const std::string of_another_machine = place_ + "/partita-" + std::to_string(::geteuid()) + "-nowhere1-AbCdEf";
  std::filesystem::create_directory(of_another_machine);
  for (const std::string& folder : {alive, with_a_file, of_another_machine}) make_old(folder);
  make_node_folder();
  for (const std::string& folder : {young, alive, with_a_file, of_another_machine}) {
    EXPECT_TRUE(std::filesystem::exists(folder)) << folder;
  }
  EXPECT_TRUE(std::filesystem::exists(with_a_file + "/0"));
}

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
    const NodeSocket socket(folder_, 2);
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
  ::unlink((folder_ + "/2").c_str());  // the killed rank's
  for (const int end : pipe_ends) ::close(end);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

sockaddr_un socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Sends `count` descriptors to the socket at `path` in one message. 0, or the error number.
int send_descriptors(const std::string& path, int fd, std::size_t count) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = socket_address(path);
  char record[24] = {};
  iovec part{record, sizeof record};
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(&address);
  message.msg_namelen = sizeof address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

constexpr uid_t nobody = 65534;

/// Runs `body` in a child of user nobody; its result, which is below 256.
int as_nobody(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setresuid(nobody, nobody, nobody) == 0 ? body() : 255);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

TEST_F(NodeSockets, lie_where_another_user_can_neither_reach_them_nor_bind_first) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  EXPECT_EQ(as_nobody([&] { return send_descriptors(folder_ + "/1", file_.get(), 1); }), EACCES);
  EXPECT_EQ(as_nobody([&] {
              const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
              const sockaddr_un address = socket_address(folder_ + "/2");
              return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
            }),
            EACCES);
  EXPECT_EQ(as_nobody([&] { return is_private_folder(folder_) ? 1 : 0; }), 0);
}

TEST_F(NodeSockets, take_no_descriptor_of_another_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  for (const auto& path : {folder_, folder_ + "/1"}) ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(as_nobody([&] { return send_descriptors(folder_ + "/1", file_.get(), 2); }), 0);
  }
  pass(7);
  EXPECT_EQ(received(), std::vector<std::uint64_t>{7});
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(NodeSockets, pass_nothing_to_another_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  const std::string path = folder_ + "/2";
  const UniqueFd theirs(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = socket_address(path);
  ASSERT_EQ(::bind(theirs.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::lchown(path.c_str(), nobody, nobody), 0);
  EXPECT_FALSE(from_.reaches(2));
  from_.pass(2, DescriptorKind::device_memory, 7, 4096, file_.get());
  EXPECT_TRUE(from_.flush(2));
  char byte = 0;
  EXPECT_LT(::recv(theirs.get(), &byte, sizeof byte, 0), 0) << "it was sent a descriptor";
  ::unlink(path.c_str());
}

TEST_F(NodeSockets, close_what_is_not_wanted) {
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {2U, 3U, 40U}) ASSERT_EQ(send_descriptors(folder_ + "/1", file_.get(), count), 0);
  pass(7);
  EXPECT_EQ(received(), std::vector<std::uint64_t>{7});
  EXPECT_EQ(open_descriptors(), before);
}

TEST(NodeFolder, is_gone_with_the_last_socket_in_it) {
  const std::string folder = make_node_folder();
  {
    const NodeSocket first(folder, 0);
    {
      const NodeSocket second(folder, 1);
    }
    EXPECT_TRUE(is_private_folder(folder));
    EXPECT_TRUE(first.reaches(0));
    EXPECT_FALSE(first.reaches(1));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(NodeFolder, is_made_elsewhere_where_a_name_is_too_long_or_closed) {
  const std::string parent = make_node_folder();
  const std::string deep = parent + "/" + std::string(120, 'x');
  ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv("TMPDIR", deep.c_str(), 1);
  const std::string folder = make_node_folder();
  EXPECT_EQ(folder.rfind("/tmp/", 0), 0U) << folder;
  ::setenv("TMPDIR", parent.c_str(), 1);
  const std::string inside = make_node_folder();
  EXPECT_EQ(inside.rfind(parent, 0), 0U) << inside;
  ::unsetenv("TMPDIR");
  ASSERT_EQ(::symlink(inside.c_str(), (parent + "/link").c_str()), 0);
  EXPECT_TRUE(is_private_folder(inside));
  EXPECT_FALSE(is_private_folder(parent + "/link"));
  ASSERT_EQ(::chmod(inside.c_str(), 0750), 0);
  EXPECT_FALSE(is_private_folder(inside));
  std::filesystem::remove_all(parent);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace partita
