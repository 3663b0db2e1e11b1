// Where the time of collectives by peer memory goes, as those who measure them are told. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "capi/gpu_aware.hpp"
#include "contract/peer_ways.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

using namespace std::chrono_literals;

std::int64_t sum_of_parts_ns(const PeerTimes& times) {
  return times.agreement_ns + times.naming_ns + times.mapping_ns + times.work_ns + times.ending_ns;
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Call>
PeerTimes timed(Call call) {
  PeerTimes times;
  Partita_Time_peers(&times);
  call();
  Partita_Time_peers(nullptr);
  return times;
}

/// Each rank sends every rank, and itself, so many ints.
class TimedAlltoall {
 public:
  explicit TimedAlltoall(int count, Memory memory = Memory::gpu)
      : count_(count),
        in_(memory, Ints(at(count * ranks()), rank())),
        out_(memory, Ints(at(count * ranks()), untouched)) {}

  void run() {
    EXPECT_OK(MPI_Alltoall(in_.data(), count_, MPI_INT, out_.data(), count_, MPI_INT, MPI_COMM_WORLD));
    EXPECT_EQ(out_.get().back(), ranks() - 1);
  }

 private:
  int count_;
  PlacedInts in_;
  PlacedInts out_;
};

TEST(DropinGpuPeerTimes, are_parts_of_the_time_of_the_calls) {
  TimedAlltoall call(plenty);
  for (const int calls : {1, 3}) {
    const std::int64_t begin_ns = now_ns();
    const PeerTimes times = timed([&] {
      for (int i = 0; i < calls; ++i) call.run();
    });
    const std::int64_t all_ns = now_ns() - begin_ns;
    EXPECT_EQ(times.calls, calls);
    for (const std::int64_t part_ns :
         {times.agreement_ns, times.naming_ns, times.mapping_ns, times.work_ns, times.ending_ns}) {
      EXPECT_GT(part_ns, 0);
    }
    EXPECT_LE(sum_of_parts_ns(times), all_ns);
  }
}

TEST(DropinGpuPeerTimes, have_reductions_in_them) {
  PlacedInts in(Memory::gpu, Ints(plenty, 1));
  PlacedInts out(Memory::gpu, Ints(plenty, untouched));
  const PeerTimes times =
      timed([&] { EXPECT_OK(MPI_Allreduce(in.data(), out.data(), plenty, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); });
  EXPECT_EQ(times.calls, 1);
  EXPECT_GT(times.work_ns, 0);
  EXPECT_EQ(out.get(), Ints(plenty, ranks()));
}

TEST(DropinGpuPeerTimes, have_no_call_in_them_that_the_mpi_makes) {
  const auto expect_none = [](const PeerTimes& times) {
    EXPECT_EQ(times.calls, 0);
    EXPECT_EQ(sum_of_parts_ns(times), 0);
  };
  TimedAlltoall small(1);
  expect_none(timed([&] { small.run(); }));
  TimedAlltoall on_host(plenty, Memory::host);
  expect_none(timed([&] { on_host.run(); }));
  TimedAlltoall mixed(plenty, rank() == 0 ? Memory::host : Memory::gpu);  // the others hear of it in the agreement
  expect_none(timed([&] { mixed.run(); }));
}

TEST(DropinGpuPeerTimes, grow_no_more_once_nobody_asks) {
  TimedAlltoall call(plenty);
  PeerTimes times;
  Partita_Time_peers(&times);
  call.run();
  Partita_Time_peers(nullptr);
  const PeerTimes before = times;
  call.run();
  EXPECT_EQ(before.calls, 1);
  EXPECT_EQ(times.calls, before.calls);
  EXPECT_EQ(sum_of_parts_ns(times), sum_of_parts_ns(before));
}

TEST(DropinGpuPeerTimes, a_late_rank_shows_in_the_agreement_of_the_others) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  TimedAlltoall call(plenty);
  call.run();
  harness_barrier();
  if (rank() == 0) std::this_thread::sleep_for(100ms);
  const PeerTimes times = timed([&] { call.run(); });
  if (rank() != 0) {
    EXPECT_GT(times.agreement_ns, 50'000'000);
  }
}

/// The GPU is late, and so all end late.
TEST(DropinGpuPeerTimes, a_slow_copy_shows_in_the_work_of_its_rank_and_in_the_end_of_the_others) {
  TimedAlltoall call(plenty);
  call.run();
  std::thread late;
  if (rank() == 0) {
    const std::uint64_t before = FakeGpu::instance().operations();
    FakeGpu::instance().hold_all(true);
    late = std::thread([before] {
      while (FakeGpu::instance().operations() == before) std::this_thread::yield();
      std::this_thread::sleep_for(100ms);
      FakeGpu::instance().hold_all(false);
    });
  }
  harness_barrier();
  const PeerTimes times = timed([&] { call.run(); });
  if (late.joinable()) late.join();
  EXPECT_GT(rank() == 0 ? times.work_ns : times.ending_ns, 50'000'000);
}

}  // namespace
}  // namespace partita::test
