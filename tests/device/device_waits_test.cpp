// Waits in kernels end: at the time limit, or when the host releases them; and say why.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"

namespace partita::test {
namespace {

using std::chrono::milliseconds;

struct WaitingPair : HostPairMemory, DevicePair {
  explicit WaitingPair(const PairShape& shape) : DevicePair(*this, shape) {}

  /// Both sides, device-driven, open `epoch`, whose bytes then lie in the send buffer.
  void open(Epoch epoch) {
    ASSERT_EQ(MPIX_Pstart(recv()), 0);
    ASSERT_EQ(MPIX_Pstart(send()), 0);
    ASSERT_EQ(MPIX_Pbuf_prepare(send()), 0);
    for (std::int64_t i = 0; i < shape().total_bytes; ++i) send_buffer()[i] = expected(epoch, i);
  }
};

PairShape device_driven(bool packets, std::uint64_t limit_ns) {
  PairShape shape;
  shape.send_partitions = 2;
  shape.transport_partitions = 2;
  shape.total_bytes = 32;
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.packets = packets;
  shape.limit_ns = limit_ns;
  return shape;
}

constexpr std::uint64_t short_limit_ns = 20'000'000;
constexpr std::uint64_t no_limit = 0;

/// All threads of a block call; all must get the same.
template <class Call>
int by_block_of(int threads, const Call& call) {
  device::CpuBlock block(static_cast<partita_u32>(threads));
  std::vector<int> codes(static_cast<std::size_t>(threads), -1);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      device::CpuBlockThread self(block, static_cast<partita_u32>(i));
      codes[static_cast<std::size_t>(i)] = call();
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const int code : codes) EXPECT_EQ(code, codes[0]);
  return codes[0];
}

TEST(DeviceWaits, a_wait_for_the_receivers_credit_ends_at_the_time_limit) {
  WaitingPair pair(device_driven(false, short_limit_ns));
  ASSERT_EQ(MPIX_Pstart(pair.send()), 0);
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pbuf_prepare(pair.send()); }), PARTITA_DEVICE_ERR_TIMEOUT);
  EXPECT_EQ(pair.failure(pair.send()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
  EXPECT_EQ(pair.send().host->failure_epoch, 1U);
}

TEST(DeviceWaits, a_wait_for_a_sends_end_ends_at_the_time_limit) {
  WaitingPair pair(device_driven(false, short_limit_ns));
  ASSERT_EQ(MPIX_Pstart(pair.recv()), 0);
  ASSERT_EQ(MPIX_Pstart(pair.send()), 0);
  ASSERT_EQ(MPIX_Pbuf_prepare(pair.send()), 0);
  ASSERT_EQ(MPIX_Pready(0, pair.send()), 0);
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pwait(pair.send()); }), PARTITA_DEVICE_ERR_TIMEOUT);
  EXPECT_EQ(pair.failure(pair.send()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
}

TEST(DeviceWaits, a_wait_for_arrival_ends_at_the_time_limit_though_some_has_arrived) {
  for (const bool packets : {false, true}) {
    WaitingPair pair(device_driven(packets, short_limit_ns));
    ASSERT_EQ(MPIX_Pstart(pair.recv()), 0);
    ASSERT_EQ(MPIX_Pstart(pair.send()), 0);
    ASSERT_EQ(MPIX_Pbuf_prepare(pair.send()), 0);
    ASSERT_EQ(MPIX_Pready(0, pair.send()), 0);
    EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pwait(pair.recv()); }), PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(pair.failure(pair.recv()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
    // The epoch is still open, and ends once the rest has come.
    ASSERT_EQ(MPIX_Pready(1, pair.send()), 0);
    EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pwait(pair.recv()); }), PARTITA_DEVICE_SUCCESS);
  }
}

/// A block waits, and the host releases it `delay` after its threads have come. Returns whether that was recorded.
bool release_of_one_wait_is_recorded(Release where, bool packets, int wait, milliseconds delay) {
  WaitingPair pair(device_driven(packets, no_limit));
  EXPECT_EQ(MPIX_Pstart(pair.send()), 0);
  if (wait != 0) {
    EXPECT_EQ(MPIX_Pstart(pair.recv()), 0);
  }
  std::atomic<int> callers{0};
  std::thread host([&] {
    while (callers.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(delay);
    pair.release_kernels(where);
  });
  const int code = by_block_of(2, [&] {
    ++callers;
    if (wait == 0) return MPIX_Pbuf_prepare(pair.send());
    return MPIX_Pwait(wait == 1 ? pair.send() : pair.recv());
  });
  host.join();
  EXPECT_EQ(code, PARTITA_DEVICE_ERR_ABORTED) << "wait " << wait;
  const std::uint32_t failure = pair.failure(wait == 2 ? pair.recv() : pair.send());
  if (failure != 0) {
    EXPECT_EQ(failure, std::uint32_t{PARTITA_DEVICE_ERR_ABORTED}) << "wait " << wait;
  }
  return failure != 0;
}

/// Either word serves: the one in GPU memory, which is looked at often, and the host's, should the other one not come.
/// A call that begins behind the release ends likewise, but has no wait to record: where the system has kept the
/// threads from beginning theirs, the host tries again and leaves them more time.
void expect_release_of_every_wait(Release where) {
  for (const bool packets : {false, true}) {
    for (int wait = 0; wait < 3; ++wait) {
      bool is_recorded = false;
      for (milliseconds delay(20); !is_recorded && delay < milliseconds(10'000) && !testing::Test::HasFailure();
           delay *= 2) {
        is_recorded = release_of_one_wait_is_recorded(where, packets, wait, delay);
      }
      EXPECT_TRUE(is_recorded) << "wait " << wait << (packets ? ", packets" : "");
    }
  }
}

TEST(DeviceWaits, the_host_releases_every_wait_by_a_word_in_gpu_memory) {
  expect_release_of_every_wait(Release::gpu_memory);
}

TEST(DeviceWaits, the_host_releases_every_wait_by_a_word_of_its_own) {
  expect_release_of_every_wait(Release::host_memory);
}

TEST(DeviceWaits, a_wait_for_a_request_that_is_freed_meanwhile_ends_and_records_nothing) {
  WaitingPair pair(device_driven(false, no_limit));
  ASSERT_EQ(MPIX_Pstart(pair.recv()), 0);
  std::thread host([&] {
    std::this_thread::sleep_for(milliseconds(20));
    store_word(&pair.recv().state->live, device::life_freed);
  });
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait(pair.recv()); }), PARTITA_DEVICE_ERR_FREED);
  host.join();
  EXPECT_EQ(pair.failure(pair.recv()), 0U);
}

PairShape host_driven(std::uint64_t limit_ns) {
  PairShape shape = device_driven(false, limit_ns);
  shape.send_device_driven = shape.recv_device_driven = false;
  return shape;
}

TEST(DeviceWaits, a_host_driven_receive_is_awaited_without_ending_its_epoch) {
  WaitingPair pair(host_driven(no_limit));
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait(pair.recv()); }), PARTITA_DEVICE_SUCCESS);  // no epoch is open
  for (Epoch epoch = 1; epoch <= 50; ++epoch) {
    pair.start_send(epoch);
    pair.start_recv(epoch);
    int flag = 1;
    ASSERT_EQ(MPIX_Parrived(pair.recv(), 0, &flag), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(flag, 0) << "the flags are those of the epoch before";
    std::thread sender([&] { EXPECT_EQ(MPIX_Pready_range(0, 1, pair.send()), PARTITA_DEVICE_SUCCESS); });
    const bool one = epoch % 2 == 0;
    EXPECT_EQ(by_block_of(3, [&] { return one ? MPIX_Pwait_partition(0, pair.recv()) : MPIX_Pwait(pair.recv()); }),
              PARTITA_DEVICE_SUCCESS);
    sender.join();
    EXPECT_TRUE(pair.all_arrived(epoch));
    ASSERT_EQ(MPIX_Parrived(pair.recv(), 0, &flag), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(flag, 1);
  }
}

TEST(DeviceWaits, all_threads_hear_that_a_host_driven_send_is_not_awaited_in_kernels) {
  WaitingPair pair(host_driven(no_limit));
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pwait(pair.send()); }), PARTITA_DEVICE_ERR_DRIVER);
}

TEST(DeviceWaits, a_wait_for_a_host_driven_receive_ends) {
  WaitingPair late(host_driven(short_limit_ns));
  late.start_recv(1);
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait(late.recv()); }), PARTITA_DEVICE_ERR_TIMEOUT);
  EXPECT_EQ(late.failure(late.recv()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait_partition(0, late.recv()); }), PARTITA_DEVICE_ERR_TIMEOUT);
  WaitingPair released(host_driven(no_limit));
  released.start_recv(1);
  EXPECT_EQ(MPIX_Pwait_partition(1, released.recv()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pwait_partition(0, released.send()), PARTITA_DEVICE_ERR_SIDE);
  released.release_kernels();
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait(released.recv()); }), PARTITA_DEVICE_ERR_ABORTED);
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait_partition(0, released.recv()); }), PARTITA_DEVICE_ERR_ABORTED);
}

TEST(DeviceWaits, what_a_block_has_unpacked_it_does_not_store_again) {
  PairShape shape = device_driven(true, no_limit);
  shape.recv_partitions = 2;
  WaitingPair pair(shape);
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
    ASSERT_EQ(MPIX_Pready_range(0, 1, pair.send()), 0);
    ASSERT_EQ(by_block_of(2, [&] { return MPIX_Pwait_partition(1, pair.recv()); }), 0);
    for (int i = 16; i < 32; ++i) {
      EXPECT_EQ(pair.recv_buffer()[i], DevicePair::expected(epoch, i));
      pair.recv_buffer()[i] = 0;  // no program does so: it shows who stores here
    }
    ASSERT_EQ(by_block_of(2, [&] { return MPIX_Pwait(pair.recv()); }), 0);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(pair.recv_buffer()[i], DevicePair::expected(epoch, i));
    for (int i = 16; i < 32; ++i) EXPECT_EQ(pair.recv_buffer()[i], 0) << "stored twice";
    ASSERT_EQ(MPIX_Pwait(pair.send()), 0);
  }
}

/// One thread of the block has heard that a partition was unpacked, the other one has not yet.
TEST(DeviceWaits, every_packet_is_somebodys_whatever_the_threads_of_a_block_know) {
  for (const std::uint32_t informed : {0U, 1U}) {
    PairShape shape = device_driven(true, no_limit);
    shape.total_bytes = 8 * 10;
    shape.recv_partitions = 2;
    WaitingPair pair(shape);
    ASSERT_NO_FATAL_FAILURE(pair.open(1));
    ASSERT_EQ(MPIX_Pready_range(0, 1, pair.send()), 0);
    int flag = 0;
    ASSERT_EQ(MPIX_Parrived(pair.recv(), 0, &flag), 0);
    ASSERT_EQ(flag, 1);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(device::await_packets(pair.recv(), 1, rank == informed, {rank, 3}), 0);
    }
    for (int i = 0; i < 80; ++i) EXPECT_EQ(pair.recv_buffer()[i], DevicePair::expected(1, i)) << "byte " << i;
  }
}

TEST(DeviceWaits, a_partition_whose_wait_ended_in_vain_is_unpacked_later) {
  PairShape shape = device_driven(true, short_limit_ns);
  shape.recv_partitions = 2;
  WaitingPair pair(shape);
  ASSERT_NO_FATAL_FAILURE(pair.open(1));
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pwait_partition(1, pair.recv()); }), PARTITA_DEVICE_ERR_TIMEOUT);
  ASSERT_EQ(MPIX_Pready_range(0, 1, pair.send()), 0);
  ASSERT_EQ(by_block_of(2, [&] { return MPIX_Pwait(pair.recv()); }), 0);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(pair.recv_buffer()[i], DevicePair::expected(1, i)) << "byte " << i;
}

TEST(DeviceWaits, unpacked_partitions_are_forgotten_at_the_wrap) {
  PairShape shape = device_driven(true, no_limit);
  shape.recv_partitions = 2;
  shape.before = 0xffffffffU - 1;
  WaitingPair pair(shape);
  for (const Epoch epoch : {0xffffffffU, 2U}) {
    // As left by calls that were 2^32 epochs ago.
    if (epoch == 0xffffffffU) {
      device::unpacked(pair.recv().state)[0] = device::pair_of(2, 2);
      device::awaited(pair.recv())[1] = 2;
    }
    ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
    ASSERT_EQ(MPIX_Pready_range(0, 1, pair.send()), 0);
    pair.recv().state->decided = 1;  // some call has unpacked something
    ASSERT_EQ(MPIX_Pwait(pair.recv()), 0);
    for (int i = 0; i < 32; ++i) EXPECT_EQ(pair.recv_buffer()[i], DevicePair::expected(epoch, i)) << "byte " << i;
    ASSERT_EQ(MPIX_Pwait(pair.send()), 0);
  }
}

/// Some threads of the block see that the host has released the request, and store nothing; others do not see it yet.
TEST(DeviceWaits, a_mark_that_the_release_overtakes_counts_whole_or_not_at_all) {
  for (int round = 0; round < 400 && !testing::Test::HasFailure(); ++round) {
    PairShape shape = device_driven(false, no_limit);
    shape.send_partitions = shape.transport_partitions = 1;
    shape.total_bytes = 3000;
    WaitingPair pair(shape);
    ASSERT_NO_FATAL_FAILURE(pair.open(1));
    std::atomic<int> there{0};
    std::thread host([&] {
      while (there == 0) std::this_thread::yield();
      store_word(&pair.send().state->live, pair.send().life | device::life_released);
    });
    const int code = by_block_of(4, [&] {
      ++there;
      return MPIX_Pready_block(0, pair.send());
    });
    host.join();
    const bool announced = load_word(pair.recv().arrival_device) == 1;
    EXPECT_EQ(announced, code == 0) << "round " << round;
    for (int i = 0; announced && i < 3000; ++i) {
      ASSERT_EQ(pair.recv_buffer()[i], DevicePair::expected(1, i)) << "round " << round << ", byte " << i;
    }
  }
}

TEST(DeviceWaits, a_block_that_threads_join_again_remembers_nothing_of_its_calls_before) {
  device::CpuBlock block(2);
  for (int launch = 0; launch < 8; ++launch) {
    const bool wrong = launch % 2 == 0;
    WaitingPair pair(device_driven(false, no_limit));
    if (!wrong) {
      ASSERT_NO_FATAL_FAILURE(pair.open(1));
    }
    std::vector<std::thread> threads;
    for (partita_u32 i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        const device::CpuBlockThread self(block, i);
        if (wrong) {
          EXPECT_EQ(MPIX_Pbuf_prepare(pair.send()), PARTITA_DEVICE_ERR_INACTIVE) << "launch " << launch;
        } else {
          EXPECT_EQ(MPIX_Pready_block(0, pair.send()), PARTITA_DEVICE_SUCCESS) << "launch " << launch;
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
}

/// Two ranks in one process, each with a send to the other.
struct Exchange {
  explicit Exchange(const PairShape& shape) : there(shape), back(shape) {}
  void open_first() {
    for (WaitingPair* pair : {&there, &back}) {
      ASSERT_EQ(MPIX_Pstart(pair->recv()), 0);
    }
    for (WaitingPair* pair : {&there, &back}) {
      ASSERT_EQ(MPIX_Pstart(pair->send()), 0);
      ASSERT_EQ(MPIX_Pbuf_prepare(pair->send()), 0);
    }
  }
  WaitingPair there, back;
};

MPIX_Prequest to_nobody() {
  MPIX_Prequest request{};
  request.flags = PARTITA_PREQUEST_NOBODY;
  return request;
}

/// One rank's epochs: it writes, marks, and turns to the next epoch; the receive is opened anew once it was read.
void run_rank(WaitingPair& out, WaitingPair& in, Epoch epochs, int threads) {
  device::CpuBlock block(static_cast<partita_u32>(threads));
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      const device::CpuBlockThread self(block, static_cast<partita_u32>(i));
      const std::int64_t bytes = out.shape().total_bytes;
      for (Epoch epoch = 1; epoch <= epochs && !testing::Test::HasFailure(); ++epoch) {
        for (std::int64_t b = i; b < bytes; b += threads) out.send_buffer()[b] = DevicePair::expected(epoch, b);
        for (int p = 0; p < out.shape().send_partitions; ++p) EXPECT_EQ(MPIX_Pready_block(p, out.send()), 0);
        EXPECT_EQ(MPIX_Pwait(in.recv()), 0);
        for (std::int64_t b = 0; b < bytes; ++b) EXPECT_EQ(in.recv_buffer()[b], DevicePair::expected(epoch, b));
        EXPECT_EQ(MPIX_Pstart(in.recv()), 0);
        EXPECT_EQ(MPIX_Pnext(out.send()), 0) << "epoch " << epoch;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

TEST(DeviceNext, a_send_turns_to_its_next_epoch_in_one_call) {
  for (const bool packets : {false, true}) {
    Exchange exchange(device_driven(packets, 10'000'000'000));
    ASSERT_NO_FATAL_FAILURE(exchange.open_first());
    std::thread other([&] { run_rank(exchange.back, exchange.there, 200, 2); });
    run_rank(exchange.there, exchange.back, 200, 3);
    other.join();
  }
}

/// Two sets of requests to the same rank, which take turns.
struct Sets {
  explicit Sets(const PairShape& shape) : even(shape), odd(shape) {}
  WaitingPair& of(Epoch round) { return round % 2 == 0 ? even : odd; }
  WaitingPair even, odd;
};

/// Two sets of requests in turn, as where what came in one epoch is read while the next one is on its way.
TEST(DeviceNext, an_exchange_turns_from_one_set_of_requests_to_the_other) {
  for (const bool packets : {false, true}) {
    const PairShape shape = device_driven(packets, 10'000'000'000);
    Sets there(shape);
    Sets back(shape);
    const auto rank = [&](Sets& out, Sets& in, int threads) {
      const int code = by_block_of(threads, [&] {
        // The first epoch of both receives, and of the first send, are open.
        for (Epoch round = 0; round < 400; ++round) {
          const WaitingPair& mine = out.of(round);
          const WaitingPair& theirs = in.of(round);
          const Epoch epoch = round / 2 + 1;
          const auto self = static_cast<std::int64_t>(device::block_rank());
          for (std::int64_t b = self; b < shape.total_bytes; b += threads) {
            mine.send_buffer()[b] = DevicePair::expected(epoch, b);
          }
          for (int p = 0; p < shape.send_partitions; ++p) {
            if (const int refused = MPIX_Pready_block(p, mine.send())) return refused;
          }
          if (const int failed = MPIX_Pnext(mine.send(), theirs.recv(), out.of(round + 1).send())) return failed;
          bool right = true;
          for (std::int64_t b = 0; b < shape.total_bytes; ++b) {
            right = right && theirs.recv_buffer()[b] == DevicePair::expected(epoch, b);
          }
          if (device::block_any(!right)) return -1;
          if (const int failed = MPIX_Pstart(theirs.recv())) return failed;
        }
        return 0;
      });
      EXPECT_EQ(code, 0) << (packets ? "packets" : "flags");
    };
    for (const Sets* sets : {&there, &back}) {
      ASSERT_EQ(MPIX_Pstart(sets->even.recv()), 0);
      ASSERT_EQ(MPIX_Pstart(sets->odd.recv()), 0);
      ASSERT_EQ(MPIX_Pstart(sets->even.send()), 0);
      ASSERT_EQ(MPIX_Pbuf_prepare(sets->even.send()), 0);
    }
    std::thread other([&] { rank(back, there, 1); });
    rank(there, back, 3);
    other.join();
  }
}

TEST(DeviceNext, waits_end_at_the_time_limit_and_say_for_what) {
  for (const bool packets : {false, true}) {
    Exchange exchange(device_driven(packets, short_limit_ns));
    ASSERT_NO_FATAL_FAILURE(exchange.open_first());
    const MPIX_Prequest& send = exchange.there.send();
    const MPIX_Prequest& recv = exchange.back.recv();
    // A partition is not marked: the send is not complete, and nothing is opened.
    ASSERT_EQ(MPIX_Pready(0, send), 0);
    EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(send); }), PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(exchange.there.failure(send), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
    EXPECT_EQ(send.host->failure_epoch, 1U);
    // Now it is; but nothing comes, and the receiver does not open the next epoch.
    ASSERT_EQ(MPIX_Pready(1, send), 0);
    EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(send, recv, send); }), PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(exchange.back.failure(recv), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
    // The epoch was opened for all that: it is prepared when the receiver has opened it, and completed.
    ASSERT_EQ(MPIX_Pwait(exchange.there.recv()), 0);
    ASSERT_EQ(MPIX_Pstart(exchange.there.recv()), 0);
    ASSERT_EQ(MPIX_Pbuf_prepare(send), 0);
    ASSERT_EQ(MPIX_Pready_range(0, 1, send), 0);
    EXPECT_EQ(MPIX_Pwait(send), 0);
  }
}

TEST(DeviceNext, a_send_that_waits_in_vain_is_told_though_all_has_come) {
  Exchange exchange(device_driven(false, short_limit_ns));
  ASSERT_NO_FATAL_FAILURE(exchange.open_first());
  ASSERT_EQ(MPIX_Pready_range(0, 1, exchange.there.send()), 0);
  ASSERT_EQ(MPIX_Pready_range(0, 1, exchange.back.send()), 0);
  const MPIX_Prequest& send = exchange.there.send();
  const MPIX_Prequest& recv = exchange.back.recv();
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(send, recv, send); }), PARTITA_DEVICE_ERR_TIMEOUT);
  EXPECT_EQ(exchange.there.failure(send), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
  EXPECT_EQ(send.host->failure_epoch, 2U);
  EXPECT_EQ(exchange.back.failure(recv), 0U);
}

TEST(DeviceNext, the_host_releases_it) {
  for (const Release where : {Release::gpu_memory, Release::host_memory}) {
    Exchange exchange(device_driven(false, no_limit));
    ASSERT_NO_FATAL_FAILURE(exchange.open_first());
    std::thread host([&] {
      std::this_thread::sleep_for(milliseconds(20));
      exchange.there.release_kernels(where);
      exchange.back.release_kernels(where);
    });
    const int code =
        by_block_of(2, [&] { return MPIX_Pnext(exchange.there.send(), exchange.back.recv(), exchange.there.send()); });
    host.join();
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_ABORTED);
  }
}

TEST(DeviceNext, wrong_requests_are_refused_and_nothing_is_opened) {
  Exchange exchange(device_driven(false, no_limit));
  ASSERT_NO_FATAL_FAILURE(exchange.open_first());
  ASSERT_EQ(MPIX_Pready_range(0, 1, exchange.there.send()), 0);
  const MPIX_Prequest& send = exchange.there.send();
  const MPIX_Prequest& recv = exchange.back.recv();
  PairShape host_shape = device_driven(false, no_limit);
  host_shape.send_device_driven = host_shape.recv_device_driven = false;
  WaitingPair by_host(host_shape);
  const auto head = send.state->head;
  const auto expect = [&](const MPIX_Prequest& first, const MPIX_Prequest& second, const MPIX_Prequest& third,
                          int code) {
    EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(first, second, third); }), code);
    EXPECT_EQ(send.state->head, head);
  };
  expect(recv, recv, send, PARTITA_DEVICE_ERR_SIDE);
  expect(send, send, send, PARTITA_DEVICE_ERR_SIDE);
  expect(send, recv, recv, PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(recv); }), PARTITA_DEVICE_ERR_SIDE);
  expect(by_host.send(), recv, send, PARTITA_DEVICE_ERR_DRIVER);
  expect(send, by_host.recv(), send, PARTITA_DEVICE_ERR_DRIVER);
  expect(send, recv, by_host.send(), PARTITA_DEVICE_ERR_DRIVER);
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(by_host.send()); }), PARTITA_DEVICE_ERR_DRIVER);
  expect(send, recv, MPIX_Prequest{}, PARTITA_DEVICE_ERR_FREED);
  expect(send, MPIX_Prequest{}, send, PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(exchange.there.failure(send), std::uint32_t{PARTITA_DEVICE_ERR_SIDE});
  EXPECT_EQ(by_host.failure(by_host.recv()), std::uint32_t{PARTITA_DEVICE_ERR_DRIVER});

  // The next send has an epoch open that is not complete.
  EXPECT_EQ(by_block_of(3, [&] { return MPIX_Pnext(send, to_nobody(), exchange.back.send()); }),
            PARTITA_DEVICE_ERR_ACTIVE);
  EXPECT_EQ(exchange.back.failure(exchange.back.send()), std::uint32_t{PARTITA_DEVICE_ERR_ACTIVE});
}

TEST(DeviceNext, what_is_to_nobody_is_left_out) {
  const MPIX_Prequest nobody = to_nobody();
  Exchange exchange(device_driven(true, no_limit));
  ASSERT_NO_FATAL_FAILURE(exchange.open_first());
  ASSERT_EQ(MPIX_Pready_range(0, 1, exchange.there.send()), 0);
  ASSERT_EQ(MPIX_Pready_range(0, 1, exchange.back.send()), 0);
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pnext(nobody, exchange.there.recv(), nobody); }), 0);
  EXPECT_EQ(MPIX_Pstart(exchange.there.recv()), 0) << "its epoch was completed";
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pnext(exchange.there.send(), nobody, nobody); }), 0);
  EXPECT_EQ(by_block_of(2, [&] { return MPIX_Pnext(nobody, nobody, exchange.there.send()); }), 0);
  EXPECT_EQ(MPIX_Pready_range(0, 1, exchange.there.send()), 0) << "it was opened and prepared";
}

TEST(DeviceWaits, a_wait_without_an_open_epoch_returns_at_once) {
  WaitingPair pair(device_driven(true, no_limit));
  EXPECT_EQ(MPIX_Pwait(pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  int flag = 0;
  EXPECT_EQ(MPIX_Parrived(pair.recv(), 0, &flag), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(flag, 1);
}

}  // namespace
}  // namespace partita::test
