// Whole epochs between threads that act as kernels: random partitions, sizes, orders, granularities and delays, both
// drivers on either side, and the contents compared at the very moment at which a partition is said to have arrived.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* const given = std::getenv("PARTITEST_SEED");
    const std::uint64_t chosen = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 0);
    std::printf("repeat with PARTITEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return value;
}

enum class Granularity { thread, aggregated, warp, block, range };

struct Launch {
  int send_blocks = 1;
  int recv_threads = 1;
  int threads_per_block = 1;
  int epochs = 10;
  Granularity granularity = Granularity::block;
  std::uint64_t stream = 0;
};

/// One run of it: its threads are the blocks of the two kernels and, of host-driven requests, the hosts.
class Transfer {
 public:
  Transfer(const PairShape& shape, const Launch& launch)
      : shape_(shape),
        launch_(launch),
        pair_(memory_, shape),
        grid_(static_cast<std::ptrdiff_t>(launch.send_blocks) * launch.threads_per_block),
        recv_block_(static_cast<partita_u32>(launch.recv_threads)) {
    for (int b = 0; b < launch.send_blocks; ++b) {
      send_blocks_.push_back(std::make_unique<device::CpuBlock>(static_cast<partita_u32>(launch.threads_per_block)));
    }
  }

  void go() {
    std::vector<std::thread> threads;
    for (int b = 0; b < launch_.send_blocks; ++b) {
      for (int i = 0; i < launch_.threads_per_block; ++i) threads.emplace_back([this, b, i] { send_thread(b, i); });
    }
    for (int i = 0; i < launch_.recv_threads; ++i) threads.emplace_back([this, i] { recv_thread(i); });
    if (!shape_.send_device_driven) threads.emplace_back([this] { send_host(); });
    if (!shape_.recv_device_driven) threads.emplace_back([this] { recv_host(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong_codes_, 0) << shape_.text();
    EXPECT_EQ(wrong_bytes_, 0) << shape_.text();
    EXPECT_EQ(pair_.failure(pair_.send()), 0U) << shape_.text();
    EXPECT_EQ(pair_.failure(pair_.recv()), 0U) << shape_.text();
  }

 private:
  void expect_success(int code) {
    if (code != PARTITA_DEVICE_SUCCESS) ++wrong_codes_;
  }

  static void delay(Random& random) {
    if (random.one_in(3)) {
      for (int spins = random.integer(1, 6); spins > 0; --spins) std::this_thread::yield();
    }
  }

  /// Epoch after epoch, for the threads of the sending kernel.
  void send_thread(int block, int index) {
    device::CpuBlockThread self(*send_blocks_[static_cast<std::size_t>(block)], static_cast<partita_u32>(index));
    Random delays(seed(),
                  1000 * launch_.stream + static_cast<std::uint64_t>(block * launch_.threads_per_block + index));
    Epoch epoch = shape_.before;
    for (int e = 0; e < launch_.epochs; ++e) {
      epoch = next(epoch);
      if (shape_.send_device_driven) {
        if (block == 0) {
          expect_success(MPIX_Pstart(pair_.send()));
          expect_success(MPIX_Pbuf_prepare(pair_.send()));
        }
      } else {
        while (load_word(&started_) != epoch) std::this_thread::yield();
      }
      grid_.arrive_and_wait();
      // Every block draws the same order and takes its share of it.
      Random order_of_epoch(seed(), 77 * launch_.stream + epoch);
      const std::vector<int> order = order_of_epoch.permutation(shape_.send_partitions);
      mark_share(block, index, order, epoch, delays);
      grid_.arrive_and_wait();
      if (shape_.send_device_driven && block == 0) expect_success(MPIX_Pwait(pair_.send()));
      grid_.arrive_and_wait();
    }
  }

  /// Fills and marks this block's partitions.
  void mark_share(int block, int index, const std::vector<int>& order, Epoch epoch, Random& delays) {
    const int count = shape_.send_partitions;
    if (launch_.granularity == Granularity::range) {
      const int threads = launch_.send_blocks * launch_.threads_per_block;
      const int rank = block * launch_.threads_per_block + index;
      const int begin = static_cast<int>(std::int64_t{count} * rank / threads);
      const int end = static_cast<int>(std::int64_t{count} * (rank + 1) / threads);
      for (int p = begin; p < end; ++p) fill(p, 0, 1, epoch);
      if (begin < end) expect_success(MPIX_Pready_range(begin, end - 1, pair_.send()));
      return;
    }
    const bool by_block = launch_.granularity == Granularity::block;
    const int workers = by_block ? launch_.send_blocks : launch_.send_blocks * launch_.threads_per_block;
    const int worker = by_block ? block : block * launch_.threads_per_block + index;
    for (std::size_t i = static_cast<std::size_t>(worker); i < order.size(); i += static_cast<std::size_t>(workers)) {
      const int p = order[i];
      delay(delays);
      fill(p, by_block ? index : 0, by_block ? launch_.threads_per_block : 1, epoch);
      switch (launch_.granularity) {
        case Granularity::thread:
          expect_success(MPIX_Pready_thread(p, pair_.send()));
          break;
        case Granularity::aggregated:
          expect_success(MPIX_Pready(p, pair_.send()));
          break;
        case Granularity::warp:
          expect_success(MPIX_Pready_warp(p, pair_.send()));
          break;
        default:
          expect_success(MPIX_Pready_block(p, pair_.send()));
          break;
      }
    }
  }

  /// Thread `index` of `threads` writes its bytes of send partition `p`.
  void fill(int p, int index, int threads, Epoch epoch) {
    const std::int64_t bytes = pair_.plan().send_partition_bytes();
    unsigned char* const to =
        shape_.in_place ? static_cast<unsigned char*>(MPIX_Pbuffer(p, pair_.send())) : pair_.send_buffer() + p * bytes;
    if (to == nullptr) {
      ++wrong_codes_;
      return;
    }
    for (std::int64_t i = index; i < bytes; i += threads) to[i] = DevicePair::expected(epoch, p * bytes + i);
  }

  void check(int partition, Epoch epoch) {
    const std::int64_t bytes = pair_.plan().recv_partition_bytes();
    for (std::int64_t i = partition * bytes; i < (partition + 1) * bytes; ++i) {
      if (pair_.recv_buffer()[i] != DevicePair::expected(epoch, i)) ++wrong_bytes_;
    }
  }

  /// Asks for a partition until it is there, and compares it at once.
  void await_partition(int partition, Epoch epoch) {
    int flag = 0;
    while (flag == 0) {
      expect_success(MPIX_Parrived(pair_.recv(), partition, &flag));
      if (flag == 0) std::this_thread::yield();
    }
    check(partition, epoch);
  }

  void recv_thread(int index) {
    device::CpuBlockThread self(recv_block_, static_cast<partita_u32>(index));
    Epoch epoch = shape_.before;
    for (int e = 0; e < launch_.epochs; ++e) {
      epoch = next(epoch);
      Random choices(seed(), 99 * launch_.stream + epoch);  // the same in all threads
      if (shape_.recv_device_driven) {
        expect_success(MPIX_Pstart(pair_.recv()));
        expect_success(MPIX_Pbuf_prepare(pair_.recv()));
      } else {
        while (load_word(&recv_started_) != epoch) std::this_thread::yield();
      }
      // All partitions, none, or some; partition 0 by all threads at once.
      const int asked = choices.integer(0, shape_.recv_partitions);
      if (asked > 0) await_partition(0, epoch);
      for (int p = index; p < asked; p += launch_.recv_threads) await_partition(p, epoch);
      device::block_barrier();
      const int awaited = choices.integer(0, shape_.recv_partitions);
      for (int p = 0; p < awaited; ++p) {
        expect_success(MPIX_Pwait_partition(p, pair_.recv()));
        check(p, epoch);
      }
      expect_success(MPIX_Pwait(pair_.recv()));
      for (int p = index; p < shape_.recv_partitions; p += launch_.recv_threads) check(p, epoch);
      device::block_barrier();
      if (!shape_.recv_device_driven && index == 0) store_word(&recv_kernel_done_, epoch);
    }
  }

  void send_host() {
    Random delays(seed(), 1000 * launch_.stream + 998);
    Epoch epoch = shape_.before;
    for (int e = 0; e < launch_.epochs; ++e) {
      epoch = next(epoch);
      delay(delays);
      pair_.start_send(epoch);
      store_word(&started_, epoch);
      int moved = 0;
      int handed_over = 0;
      for (bool decided = false; !decided || moved < handed_over;) {
        decided = pair_.send_is_decided(epoch);
        moved += pair_.progress(epoch);
        handed_over = 0;
        for (int t = 0; t < shape_.transport_partitions; ++t) handed_over += pair_.handed_over(t, epoch);
        std::this_thread::yield();
      }
    }
  }

  void recv_host() {
    Random delays(seed(), 1000 * launch_.stream + 999);
    Epoch epoch = shape_.before;
    for (int e = 0; e < launch_.epochs; ++e) {
      epoch = next(epoch);
      delay(delays);
      pair_.start_recv(epoch);
      store_word(&recv_started_, epoch);
      while (!pair_.all_arrived(epoch)) std::this_thread::yield();
      for (int p = 0; p < shape_.recv_partitions; ++p) check(p, epoch);
      while (load_word(&recv_kernel_done_) != epoch) std::this_thread::yield();
    }
  }

  HostPairMemory memory_;
  PairShape shape_;
  Launch launch_;
  DevicePair pair_;
  std::barrier<> grid_;
  std::vector<std::unique_ptr<device::CpuBlock>> send_blocks_;
  device::CpuBlock recv_block_;
  std::uint32_t started_ = no_epoch;
  std::uint32_t recv_started_ = no_epoch;
  std::uint32_t recv_kernel_done_ = no_epoch;
  std::atomic<int> wrong_codes_{0};
  std::atomic<int> wrong_bytes_{0};
};

/// Partition counts that divide a random size, which for packets is made of whole packets.
PairShape random_shape(Random& random, bool send_device_driven, bool recv_device_driven, bool packets) {
  PairShape shape;
  shape.send_partitions = random.integer(1, 24);
  shape.recv_partitions = random.integer(1, 24);
  shape.transport_partitions = random.one_in(3) ? 1 : random.integer(1, shape.send_partitions);
  const std::int64_t grid = std::lcm(std::int64_t{shape.send_partitions}, std::int64_t{shape.recv_partitions});
  shape.total_bytes = grid * (packets ? 8 * random.integer(0, 3) : random.of(std::vector<int>{0, 1, 3, 8, 16, 40}));
  if (random.one_in(6)) {  // beyond what one warp copies for its block
    shape.send_partitions = random.integer(1, 3);
    shape.transport_partitions = random.integer(1, shape.send_partitions);
    shape.recv_partitions = 2;
    shape.total_bytes = std::int64_t{16 * 6 * 40} * (packets ? 1 : random.integer(1, 3));
  }
  if (packets && random.one_in(8)) {  // the largest in packets: as many bytes as travel so, in partitions of 1 KiB
    shape.send_partitions = shape.transport_partitions = 32;
    shape.recv_partitions = random.of(std::vector<int>{32, 64});
    shape.total_bytes = 32 * 1024;
  }
  shape.send_device_driven = send_device_driven;
  shape.recv_device_driven = recv_device_driven;
  shape.packets = packets;
  shape.has_front = !send_device_driven && random.one_in(2);
  shape.before = random.one_in(2) ? 0xffffffffu - static_cast<Epoch>(random.integer(0, 6)) : no_epoch;
  shape.misaligned_send_bytes = packets ? 8 * random.integer(0, 1) : random.integer(0, 15);
  shape.misaligned_recv_bytes = packets ? 8 * random.integer(0, 1) : random.integer(0, 15);
  return shape;
}

void run_random(bool send_device_driven, bool recv_device_driven, bool packets, std::uint64_t stream) {
  constexpr int runs = 12;
  for (int run = 0; run < runs; ++run) {
    Random random(seed(), 100 * stream + static_cast<std::uint64_t>(run));
    const PairShape shape = random_shape(random, send_device_driven, recv_device_driven, packets);
    Launch launch;
    launch.send_blocks = random.integer(1, 3);
    launch.threads_per_block = random.integer(1, 2);
    launch.recv_threads = random.integer(1, 2);
    launch.granularity = static_cast<Granularity>(random.integer(0, 4));
    launch.stream = 100 * stream + static_cast<std::uint64_t>(run);
    SCOPED_TRACE(shape.text() + ", granularity " + std::to_string(static_cast<int>(launch.granularity)));
    Transfer(shape, launch).go();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(DeviceTransfer, host_driven_on_both_sides) {
  run_random(false, false, false, 1);
}
TEST(DeviceTransfer, device_driven_on_both_sides) {
  run_random(true, true, false, 2);
}
TEST(DeviceTransfer, a_device_driven_send_to_a_host_driven_receive) {
  run_random(true, false, false, 3);
}
TEST(DeviceTransfer, a_host_driven_send_to_a_device_driven_receive) {
  run_random(false, true, false, 4);
}
TEST(DeviceTransfer, packets) {
  run_random(true, true, true, 5);
}

TEST(DeviceTransfer, one_of_several_threads_that_ask_for_a_partition_of_packets_unpacks_it) {
  PairShape shape;
  shape.total_bytes = 32768;
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.packets = true;
  Launch launch;
  launch.recv_threads = 4;
  launch.epochs = 30;
  Transfer(shape, launch).go();
}

TEST(DeviceTransfer, in_place_the_kernel_stores_into_the_receivers_memory_itself) {
  PairShape shape;
  shape.send_partitions = 12;
  shape.recv_partitions = 4;
  shape.transport_partitions = 3;
  shape.total_bytes = 12 * 40;
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.in_place = true;
  Launch launch;
  launch.send_blocks = 2;
  launch.threads_per_block = 2;
  launch.recv_threads = 2;
  launch.epochs = 40;
  Transfer(shape, launch).go();
}

TEST(DeviceTransfer, the_engine_alone_moves_what_kernels_cannot_reach) {
  PairShape shape;
  shape.send_partitions = 12;
  shape.recv_partitions = 8;
  shape.total_bytes = 24 * 10;
  shape.mapped = false;
  for (const bool has_front : {false, true})
    for (const bool recv_device_driven : {false, true}) {
      shape.has_front = has_front;
      shape.recv_device_driven = recv_device_driven;
      for (const int transport_partitions : {1, 5, 12}) {
        shape.transport_partitions = transport_partitions;
        Launch launch;
        launch.send_blocks = 2;
        launch.epochs = 15;
        for (launch.threads_per_block = 1; launch.threads_per_block <= 3; ++launch.threads_per_block) {
          Transfer(shape, launch).go();
        }
      }
    }
}

TEST(DeviceTransfer, many_blocks_count_into_one_transport_partition_across_the_wrap_of_epochs) {
  for (const bool packets : {false, true}) {
    PairShape shape;
    shape.send_partitions = 4;
    shape.transport_partitions = 1;
    shape.total_bytes = 4 * 16;
    shape.send_device_driven = shape.recv_device_driven = true;
    shape.packets = packets;
    shape.before = 0xffffffffu - 20;
    Launch launch;
    launch.send_blocks = 4;
    launch.epochs = 300;
    Transfer(shape, launch).go();
  }
}

}  // namespace
}  // namespace partita::test
