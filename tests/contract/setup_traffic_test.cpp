// Setup messages and the descriptors that go before them, without the layers above: what cannot be sent now holds up
// nobody else, and is sent later.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/mailbox.hpp"
#include "core/progress.hpp"
#include "core/world.hpp"
#include "memory/host.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

std::atomic<bool> mpi_refuses_sends{false};

/// Lets this process open no more files while it lives.
class NoDescriptorFree {
 public:
  NoDescriptorFree() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest_free);
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorFree() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorFree(const NoDescriptorFree&) = delete;
  NoDescriptorFree& operator=(const NoDescriptorFree&) = delete;

 private:
  rlimit before_{};
};

/// Rank 0 posts numbers; each rank has a mailbox, and makes progress only where a case says so.
class SetupTraffic : public testing::Test {
 protected:
  static constexpr std::uint8_t kind = 1;

  SetupTraffic() {
    mailbox_.on(kind, [this](int, wire::Reader message) { received_.push_back(message.get<std::uint64_t>()); });
    progress_.add([this] { return mailbox_.progress(); });
  }
  void post(int peer, std::uint64_t number) { mailbox_.post(peer, wire::Writer().put(kind).put(number).take()); }
  /// Makes progress until `count` numbers have come; false after ten seconds.
  bool receive(std::size_t count) {
    return until([&] { return received_.size() >= count; });
  }
  template <class Condition>
  bool until(Condition condition) {
    using Clock = std::chrono::steady_clock;
    for (const auto limit = Clock::now() + std::chrono::seconds(10); !condition(); std::this_thread::yield()) {
      progress_.poll();
      if (Clock::now() > limit) return false;
    }
    return true;
  }
  void meet() {
    MPI_Request barrier = MPI_REQUEST_NULL;
    PMPI_Ibarrier(harness_comm(), &barrier);
    int done = 0;
    EXPECT_TRUE(until([&] { return PMPI_Test(&barrier, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0; }));
  }

  World world_{MPI_COMM_WORLD};
  Progress progress_{-1};  ///< without a thread
  Mailbox mailbox_{world_, progress_};
  memory::HostMemory memory_{world_};
  std::vector<std::uint64_t> received_;
};

TEST_F(SetupTraffic, a_rank_whose_queue_is_full_holds_up_messages_to_no_other) {
  if (rank() == 0) {
    const UniqueFd file(::memfd_create("partita-test", MFD_CLOEXEC));
    for (std::uint64_t i = 0; i < 40; ++i)
      world_.socket().pass(1, DescriptorKind::host_segment, 1000 + i, 4096, file.get());
    ASSERT_FALSE(world_.socket().flush(1)) << "rank 1 has taken none in";
    post(1, 10);
    post(1, 11);
    for (int peer = 2; peer < ranks(); ++peer) post(peer, 12);
  } else if (rank() > 1) {
    EXPECT_TRUE(receive(1)) << "waits behind what rank 1 does not take in";
  }
  harness_barrier();
  if (rank() == 0) {
    EXPECT_TRUE(until([&] { return world_.socket().flush(1); }));
  } else if (rank() == 1) {
    EXPECT_TRUE(receive(2));
    EXPECT_EQ(received_, (std::vector<std::uint64_t>{10, 11}));
  }
  meet();
}

TEST_F(SetupTraffic, messages_that_the_mpi_refuses_are_kept_in_their_order) {
  if (rank() == 0) {
    mpi_refuses_sends = true;
    EXPECT_NO_THROW(post(1, 20));
    EXPECT_NO_THROW(post(1, 21));
    progress_.poll();
    mpi_refuses_sends = false;
    EXPECT_TRUE(progress_.wanted());
    EXPECT_TRUE(until([&] { return !progress_.wanted(); })) << "a message is never taken";
  } else if (rank() == 1) {
    EXPECT_TRUE(receive(2));
    EXPECT_EQ(received_, (std::vector<std::uint64_t>{20, 21}));
  }
  meet();
}

TEST_F(SetupTraffic, a_segment_that_could_not_be_passed_is_passed_to_the_next_who_asks) {
  world_.close_our_files();
  memory::HostAddress named;
  std::byte* block = nullptr;
  if (rank() == 0) {
    block = memory_.allocate_block(64);
    {
      const NoDescriptorFree no_descriptor_free;
      EXPECT_THROW(memory_.export_to(1, block), Error);
    }
    named = memory_.export_to(1, block);
  }
  PMPI_Bcast(&named, sizeof named, MPI_BYTE, 0, harness_comm());
  if (rank() == 1) {
    EXPECT_NO_THROW(memory_.import(0, named, 64));
  }
  harness_barrier();
}

/// As many descriptors on their way as the user may have, so that the kernel passes no more, but to root.
class NoneMoreInFlight {
 public:
  NoneMoreInFlight() {
    ::setresuid(nobody, nobody, 0);
    ::prctl(PR_SET_DUMPABLE, 1);  // the change of users has taken it away
    if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends_) != 0) return;
    const int flood[200] = {ends_[0]};
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof flood)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof flood);
    for (std::size_t i = 0; i < std::size(flood); ++i) {
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &ends_[0], sizeof(int));
    }
    full_ = ::sendmsg(ends_[1], &message, 0) >= 0;
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 150;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoneMoreInFlight() {
    ::setrlimit(RLIMIT_NOFILE, &before_);
    for (const int end : ends_) ::close(end);
    ::setresuid(0, 0, 0);
    ::prctl(PR_SET_DUMPABLE, 1);
  }
  NoneMoreInFlight(const NoneMoreInFlight&) = delete;
  NoneMoreInFlight& operator=(const NoneMoreInFlight&) = delete;

  bool full() const { return full_; }

 private:
  static constexpr uid_t nobody = 65534;
  int ends_[2] = {-1, -1};
  bool full_ = false;
  rlimit before_{};
};

TEST_F(SetupTraffic, memory_is_shared_where_no_descriptor_can_be_passed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become a user that has no descriptors in flight elsewhere";
  memory::HostAddress named;
  if (rank() == 0) {
    std::byte* block = memory_.allocate_block(64);
    block[0] = std::byte{42};
    const NoneMoreInFlight none_more_in_flight;
    ASSERT_TRUE(none_more_in_flight.full());
    named = memory_.export_to(1, block);
    post(1, 30);
    EXPECT_TRUE(until([&] { return !progress_.wanted(); })) << "the message waits for a descriptor";
  }
  PMPI_Bcast(&named, sizeof named, MPI_BYTE, 0, harness_comm());
  if (rank() == 1) {
    EXPECT_TRUE(receive(1));
    EXPECT_EQ(*memory_.import(0, named, 64), std::byte{42});
  }
  meet();
}

TEST_F(SetupTraffic, a_segment_that_is_freed_meanwhile_is_told_from_what_has_its_descriptor) {
  memory::HostAddress named;
  UniqueFd other;
  if (rank() == 0) {
    std::byte* segment = memory_.allocate(std::size_t{256} << 20);
    named = memory_.export_to(1, segment);
    memory_.free(segment);
    other = UniqueFd(::memfd_create("partita-test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(other.get(), 1 << 20), 0);
    EXPECT_EQ(other.get(), named.file.number);
  }
  PMPI_Bcast(&named, sizeof named, MPI_BYTE, 0, harness_comm());
  if (rank() == 1) {
    EXPECT_THROW(memory_.import(0, named, 64), Error);
  }
  harness_barrier();
}

/// What of shared memory this process has in its page tables, in KiB.
long shared_kib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0, resident = 0, shared = 0;
  statm >> pages >> resident >> shared;
  return shared * ::sysconf(_SC_PAGESIZE) / 1024;
}

TEST_F(SetupTraffic, blocks_of_many_sizes_keep_no_memory_once_they_are_freed) {
  const long before = shared_kib();
  for (std::size_t size = 20000; size < std::size_t{24} << 20; size = size * 3 / 2) {
    std::byte* blocks[3];
    for (auto& block : blocks) {
      block = memory_.allocate_block(size);
      EXPECT_EQ(block[size / 2], std::byte{0}) << "not zeroed";
      std::memset(block, 1, size);
    }
    for (auto* block : blocks) memory_.free_block(block, size);
  }
  EXPECT_LT(shared_kib() - before, 2048);
  std::byte* again = memory_.allocate_block(200000);
  EXPECT_EQ(std::count(again, again + 200000, std::byte{0}), 200000);
  memory_.free_block(again, 200000);
  meet();
}

TEST_F(SetupTraffic, pages_that_a_gpu_of_a_peer_may_have_are_not_given_back) {
  constexpr std::size_t size = std::size_t{1} << 20;
  std::byte* block = memory_.allocate_block(size);
  memory_.export_to_gpu_of(rank(), block);
  std::memset(block, 1, size);
  const long touched = shared_kib();
  memory_.free_block(block, size);
  EXPECT_GT(shared_kib(), touched - static_cast<long>(size / 2048));
  meet();
}

}  // namespace
}  // namespace partita::test

/// Stands before the MPI's own.
extern "C" int PMPI_Isend(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  if (partita::test::mpi_refuses_sends) return MPI_ERR_NO_MEM;
  using Isend = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
  const auto of_mpi = reinterpret_cast<Isend>(dlsym(RTLD_NEXT, "PMPI_Isend"));
  return of_mpi(buffer, count, type, dest, tag, comm, request);
}
