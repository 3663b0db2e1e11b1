// Setup messages and the descriptors that go before them, without the layers above: what cannot be sent now holds up
// nobody else, and is sent later.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
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
  std::uint64_t named[2] = {0, 0};
  std::byte* block = nullptr;
  if (rank() == 0) {
    block = memory_.allocate_block(64);
    {
      const NoDescriptorFree no_descriptor_free;
      EXPECT_THROW(memory_.export_to(1, block), Error);
    }
    const auto address = memory_.export_to(1, block);
    named[0] = address.segment;
    named[1] = address.offset_bytes;
  }
  PMPI_Bcast(named, 2, MPI_UINT64_T, 0, harness_comm());
  if (rank() == 1) {
    EXPECT_NO_THROW(memory_.import(0, {named[0], named[1]}, 64));
  }
  harness_barrier();
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
