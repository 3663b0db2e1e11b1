// Readiness that comes at any moment: who moves a transport partition, and that only one does.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <atomic>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

struct DeferringPair : HostPairMemory, DevicePair {
  explicit DeferringPair(const PairShape& shape) : DevicePair(*this, shape) {}

  void fill(Epoch epoch) {
    for (std::int64_t i = 0; i < shape().total_bytes; ++i) send_buffer()[i] = expected(epoch, i);
  }
  bool holds(Epoch epoch, device::Range bytes) const {
    for (std::int64_t i = bytes.begin; i < bytes.end; ++i) {
      if (recv_buffer()[i] != expected(epoch, i)) return false;
    }
    return true;
  }
};

PairShape shape_of(int send_partitions, int transport_partitions) {
  PairShape shape;
  shape.send_partitions = send_partitions;
  shape.recv_partitions = 1;
  shape.transport_partitions = transport_partitions;
  shape.total_bytes = 24 * send_partitions;
  return shape;
}

TEST(DeviceDeferral, one_mark_before_the_receiver_is_ready_gives_the_whole_transport_partition_to_the_engine) {
  for (const int transports : {1, 2, 3, 7}) {
    constexpr int partitions = 7;
    for (int ready_before = 0; ready_before <= partitions; ++ready_before) {
      DeferringPair pair(shape_of(partitions, transports));
      Epoch epoch = no_epoch;
      for (int round = 0; round < 3; ++round) {
        epoch = next(epoch);
        pair.fill(epoch);
        pair.start_send(epoch);
        for (int p = 0; p < partitions; ++p) {
          if (p == ready_before) pair.start_recv(epoch);
          ASSERT_EQ(MPIX_Pready(p, pair.send()), PARTITA_DEVICE_SUCCESS);
        }
        ASSERT_TRUE(pair.send_is_decided(epoch));
        int handed_over = 0;
        for (int t = 0; t < transports; ++t) {
          const bool deferred = pair.plan().send_run(t).begin < ready_before;
          EXPECT_EQ(pair.handed_over(t, epoch), deferred) << pair.shape().text() << ", ready before " << ready_before;
          EXPECT_EQ(pair.host_sees_arrival(t, epoch), !deferred);
          handed_over += deferred;
          if (!deferred) {
            EXPECT_TRUE(pair.holds(epoch, pair.plan().bytes(t)));
          }
        }
        // By this word alone the host knows whether it has to look.
        EXPECT_EQ(pair.send().host->newest_hand_over == epoch, handed_over > 0);
        EXPECT_EQ(pair.progress(epoch), ready_before == partitions ? 0 : handed_over);
        if (ready_before == partitions) {
          pair.start_recv(epoch);
          EXPECT_EQ(pair.progress(epoch), handed_over);
        }
        EXPECT_EQ(pair.progress(epoch), 0);
        EXPECT_TRUE(pair.all_arrived(epoch));
        EXPECT_TRUE(pair.holds(epoch, {0, pair.shape().total_bytes}));
      }
      EXPECT_EQ(pair.failure(pair.send()), 0U);
    }
  }
}

TEST(DeviceDeferral, without_mapped_memory_everything_goes_to_the_engine) {
  PairShape shape = shape_of(6, 3);
  shape.mapped = false;
  DeferringPair pair(shape);
  Epoch epoch = no_epoch;
  for (int round = 0; round < 4; ++round) {
    epoch = next(epoch);
    pair.fill(epoch);
    if (round % 2 == 0) pair.start_recv(epoch);
    pair.start_send(epoch);
    EXPECT_EQ(MPIX_Pready_range(0, 5, pair.send()), PARTITA_DEVICE_SUCCESS);
    EXPECT_TRUE(pair.send_is_decided(epoch));
    for (int t = 0; t < 3; ++t) EXPECT_TRUE(pair.handed_over(t, epoch));
    pair.start_recv(epoch);
    EXPECT_EQ(pair.progress(epoch), 3);
    EXPECT_TRUE(pair.holds(epoch, {0, shape.total_bytes}));
  }
}

TEST(DeviceDeferral, without_mapped_memory_marks_are_counted_and_handed_over_before_the_host_is_asked) {
  for (const int transports : {1, 2, 4}) {
    PairShape shape = shape_of(4, transports);
    shape.mapped = false;
    {
      DeferringPair pair(shape);
      for (Epoch epoch = 1; epoch < 4; ++epoch) {
        pair.start_send(epoch);
        EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
        for (int t = 0; t < transports; ++t) EXPECT_TRUE(pair.handed_over(t, epoch));
        EXPECT_TRUE(pair.send_is_decided(epoch));
        EXPECT_EQ(pair.failure(pair.send()), 0U);
      }
    }
    // Too late to refuse it.
    DeferringPair pair(shape);
    EXPECT_EQ(MPIX_Pready(1, pair.send()), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(pair.failure(pair.send()), static_cast<std::uint32_t>(PARTITA_DEVICE_ERR_INACTIVE));
    EXPECT_EQ(pair.send().host->failure_partition, 1);
    EXPECT_EQ(MPIX_Pready(1, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  }
}

TEST(DeviceDeferral, a_receiver_of_which_the_host_has_told_needs_no_look_at_the_hosts_word) {
  for (const bool mapped : {true, false}) {
    PairShape shape = shape_of(4, 2);
    shape.mapped = mapped;
    DeferringPair pair(shape);
    // What the host's word says now is that no epoch was started: a look would be told of.
    for (Epoch epoch = 1; epoch < 4; ++epoch) {
      pair.fill(epoch);
      pair.note_ready(epoch);
      EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
      EXPECT_TRUE(pair.send_is_decided(epoch));
      for (int t = 0; t < 2; ++t) EXPECT_EQ(pair.handed_over(t, epoch), !mapped);
      EXPECT_EQ(pair.all_arrived(epoch), mapped);
      EXPECT_EQ(pair.holds(epoch, {0, shape.total_bytes}), mapped);
      EXPECT_EQ(pair.failure(pair.send()), 0U);
    }
  }
}

TEST(DeviceDeferral, what_the_host_tells_of_an_older_epoch_says_nothing_of_a_newer_one) {
  DeferringPair pair(shape_of(4, 4));
  const auto mark = [&](int partition) { EXPECT_EQ(MPIX_Pready(partition, pair.send()), PARTITA_DEVICE_SUCCESS); };
  pair.start_recv(1);
  pair.start_send(1);
  EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
  ASSERT_TRUE(pair.send_is_decided(1));

  pair.start_send(2);
  pair.note_ready(1);
  mark(0);
  EXPECT_TRUE(pair.handed_over(0, 2)) << "of epoch 2 the receiver has not been heard";
  pair.start_recv(2);
  mark(1);
  EXPECT_TRUE(pair.host_sees_arrival(1, 2));
  pair.note_ready(1);  // behind what a kernel has seen itself
  mark(2);
  EXPECT_TRUE(pair.host_sees_arrival(2, 2));
  pair.note_ready(2);
  mark(3);
  EXPECT_TRUE(pair.host_sees_arrival(3, 2));
  EXPECT_TRUE(pair.send_is_decided(2));

  pair.note_ready(2);  // behind the end of its epoch
  pair.start_send(3);
  mark(0);
  EXPECT_TRUE(pair.handed_over(0, 3));
  EXPECT_EQ(pair.failure(pair.send()), 0U);
}

/// Three threads mark, one is the receiver and opens epochs at random moments, one is the progress engine, and one
/// tells what the sender's host has seen, soon or much later.
TEST(DeviceDeferral, with_readiness_at_random_moments_everything_arrives_once_and_rightly) {
  constexpr int markers = 3;
  Random random(20261121);
  int by_engine = 0;
  int by_kernel = 0;
  for (int round = 0; round < 6; ++round) {
    const bool many = round >= 4;  // then marks are announced together
    const int epochs = many ? 20 : 150;
    const int send_partitions = many ? 24 * random.integer(3, 4) : random.integer(markers, 12);
    PairShape shape =
        shape_of(send_partitions, many ? send_partitions / (round - 3) : random.integer(1, send_partitions));
    shape.before = 0xffffffffu - static_cast<Epoch>(random.integer(0, 100));
    DeferringPair pair(shape);
    std::atomic<Epoch> started{shape.before};
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};

    std::vector<std::thread> threads;
    for (int m = 0; m < markers; ++m) {
      threads.emplace_back([&, m] {
        Random delays(7, static_cast<std::uint64_t>(round * markers + m));
        Epoch epoch = shape.before;
        for (int e = 0; e < epochs; ++e) {
          epoch = next(epoch);
          while (started.load(std::memory_order_acquire) != epoch) std::this_thread::yield();
          for (int p = m; p < send_partitions; p += markers) {
            for (int spins = delays.integer(0, 3); spins > 0; --spins) std::this_thread::yield();
            if (MPIX_Pready(p, pair.send()) != PARTITA_DEVICE_SUCCESS) ++wrong;
          }
        }
      });
    }
    threads.emplace_back([&] {  // the receiver's host
      Random delays(8, static_cast<std::uint64_t>(round));
      Epoch epoch = shape.before;
      for (int e = 0; e < epochs; ++e) {
        epoch = next(epoch);
        for (int spins = delays.integer(0, 12); spins > 0; --spins) std::this_thread::yield();
        pair.start_recv(epoch);
        while (!pair.all_arrived(epoch)) std::this_thread::yield();
        if (!pair.holds(epoch, {0, shape.total_bytes})) ++wrong;
      }
      done = true;
    });
    threads.emplace_back([&] {
      Random delays(9, static_cast<std::uint64_t>(round));
      while (!done) {
        const Epoch opened = pair.opened_by_receiver();
        for (int spins = delays.integer(1, 9); spins > 0; --spins) std::this_thread::yield();
        // The receiver opens an epoch before the sender does, perhaps; the host tells of it from its own Start on.
        if (reached(started.load(std::memory_order_acquire), opened)) pair.note_ready(opened);
      }
    });
    // The sender's host: starts, moves what it is given, waits.
    Epoch epoch = shape.before;
    for (int e = 0; e < epochs; ++e) {
      epoch = next(epoch);
      pair.fill(epoch);
      pair.start_send(epoch);
      started.store(epoch, std::memory_order_release);
      int moved = 0;
      while (!pair.send_is_decided(epoch)) {
        moved += pair.progress(epoch);
        std::this_thread::yield();
      }
      int handed_over = 0;
      for (int t = 0; t < shape.transport_partitions; ++t) handed_over += pair.handed_over(t, epoch);
      while (moved < handed_over) {
        moved += pair.progress(epoch);
        std::this_thread::yield();
      }
      by_engine += moved;
      by_kernel += shape.transport_partitions - moved;
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(done);
    EXPECT_EQ(wrong, 0) << shape.text();
    EXPECT_EQ(pair.failure(pair.send()), 0U);
  }
  // Both ways were taken, or the test has shown nothing.
  EXPECT_GT(by_engine, 0);
  EXPECT_GT(by_kernel, 0);
}

}  // namespace
}  // namespace partita::test
